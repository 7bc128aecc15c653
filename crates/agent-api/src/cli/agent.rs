//! What is specific to one command-line agent, planned without starting it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::mcp::Transport;
use crate::options::{Origin, RunOptions, Selector};
use crate::process::supervise::{Delivery, Prompt};
use crate::transcript::{Conversation, Transcript};

/// One command line. Pure: it plans, and never starts anything.
pub(crate) trait CliAgent: Send + Sync {
    fn kind(&self) -> AgentKind;
    /// The name under which the program is usually installed.
    fn program(&self) -> &str;
    /// Variables of the host that reach the agent beside those that everyone gets.
    fn variables(&self) -> &[&str];
    /// Capabilities beyond those that every agent here has.
    fn capabilities(&self) -> Vec<String>;
    fn offers_external_sandbox(&self) -> bool {
        false
    }
    /// Whether planning needs to know what `--help` says.
    fn needs_help(&self, _options: &RunOptions) -> bool {
        false
    }
    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError>;
    /// The names under which the agent reports tools of a grant, where it has a name for each.
    fn tools(&self, _grant: Grant) -> Option<&'static [&'static str]> {
        None
    }
    /// The arguments of a management command, if the agent has it.
    fn mcp(&self, _command: McpCommand) -> Option<Result<Vec<String>, AgentError>> {
        None
    }
}

/// What is known when a run is planned.
pub(crate) struct Scene<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) options: &'a RunOptions,
    /// With `last` replaced by the id that it means.
    pub(crate) origin: Origin,
    pub(crate) grants: &'a BTreeSet<Grant>,
    /// Whether a person decides about what was not granted; otherwise it is denied.
    pub(crate) is_attended: bool,
    pub(crate) working_dir: &'a Path,
    pub(crate) home: &'a Path,
    /// Where [`Plan::files`] will be.
    pub(crate) files: &'a dyn Fn(&str) -> PathBuf,
    /// What `--help` says, where that was asked for.
    pub(crate) help: &'a str,
    /// What it may not look at, where it knows rules for paths.
    pub(crate) hidden: &'a [PathBuf],
    /// Whether the agent will have a variable.
    pub(crate) has_variable: &'a dyn Fn(&str) -> bool,
}

impl Scene<'_> {
    pub(crate) fn has(&self, grant: Grant) -> bool {
        self.grants.contains(&grant)
    }

    pub(crate) fn conversation(&self) -> Conversation {
        if self.origin == Origin::New { Conversation::New } else { Conversation::Continued }
    }

    /// The id of the session that the run continues, which has to exist.
    pub(crate) fn continues(&self) -> Option<&str> {
        match &self.origin {
            Origin::Resume(Selector::Id(id)) | Origin::Fork(Selector::Id(id)) => Some(id),
            Origin::Resume(Selector::Last) | Origin::Fork(Selector::Last) | Origin::New => None,
        }
    }
}

/// How one run is started.
pub(crate) struct Plan {
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// Variables that restrict the agent to its grants, so only we may set them.
    pub(crate) walls: BTreeMap<String, String>,
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    pub(crate) folders: Vec<PathBuf>,
    /// Files below the home; one that is there stays as it is.
    pub(crate) home_files: Vec<(&'static str, Vec<u8>)>,
    pub(crate) prompt: Prompt,
    pub(crate) transcript: Transcript,
    pub(crate) delivery: Delivery,
}

impl Plan {
    /// A program that gets one prompt, is read while it works, and needs nothing else.
    pub(crate) fn live(args: Vec<String>, prompt: Prompt, transcript: Transcript) -> Self {
        Self {
            args,
            env: BTreeMap::new(),
            walls: BTreeMap::new(),
            files: Vec::new(),
            folders: Vec::new(),
            home_files: Vec::new(),
            prompt,
            transcript,
            delivery: Delivery::Live,
        }
    }
}

pub(crate) enum McpCommand {
    List,
    Get(String),
    Add(String, Transport),
    Remove(String),
}
