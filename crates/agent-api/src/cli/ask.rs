//! Queries to a backend without starting a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::{CliBackend, Scene, no_folder};
use crate::error::{AgentError, FailureClass};
use crate::grant::Grant;
use crate::options::{Origin, RunOptions};
use crate::process::capture::capture;
use crate::process::scratch::{Scratch, private_folder};

/// A cold start of the slowest agent takes half of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a version that are worth showing.
const VERSION_BYTES: usize = 128;

impl CliBackend {
    /// The name or path of the program that is started.
    #[must_use]
    pub fn program_path(&self) -> &Path {
        self.config.program.as_deref().unwrap_or_else(|| Path::new(self.agent.program()))
    }

    /// Whether a run with these grants would be refused, and why: nothing is started.
    pub fn check_grants(&self, grants: &BTreeSet<Grant>) -> Result<(), AgentError> {
        let scene = Scene {
            prompt: "-",
            options: &RunOptions::default(),
            origin: Origin::New,
            grants,
            is_attended: false,
            working_dir: Path::new("/"),
            home: Path::new("/"),
            files: &|name| name.into(),
            help: "",
            hidden: &[],
            has_variable: &|_| false,
        };
        self.agent.plan(&scene).map(drop)
    }

    /// Whether a tool that an event names is one of those that were granted. Agents that have no name for each tool
    /// need grants for all that they have.
    #[must_use]
    pub fn is_granted(&self, grants: &BTreeSet<Grant>, tool: &str) -> bool {
        let named = Grant::ALL.into_iter().any(|grant| self.agent.tools(grant).is_some());
        !named
            || grants
                .iter()
                .any(|grant| self.agent.tools(*grant).is_some_and(|names| names.contains(&tool)))
    }

    /// What the program says when it is asked for its version, which also shows that it can be started.
    pub async fn version(&self) -> Result<String, AgentError> {
        let scratch = Scratch::new(self.config.scratch.as_deref()).map_err(|_| no_folder())?;
        let nothing = BTreeMap::new();
        let home = self.home(&nothing, &scratch);
        private_folder(&home).map_err(|_| no_folder())?;
        let environment = self.environment(&home, &scratch, BTreeMap::new(), &nothing);
        let args = vec!["--version".into()];
        let command = self.command(args, environment, scratch.work(), (&home, &scratch))?;
        let output = capture(&command, &self.keeper, Some(PATIENCE)).await?;
        let said = output.stdout.lines().map(str::trim).find(|line| !line.is_empty());
        match said.filter(|line| output.status.success() && line.len() <= VERSION_BYTES) {
            Some(version) => Ok(version.chars().filter(|c| !c.is_control()).collect()),
            None => Err(AgentError::Backend {
                message: "the program does not say its version".into(),
                class: FailureClass::Protocol,
                exit: Some(output.status.into()),
            }),
        }
    }
}
