//! The configuration of a command-line agent on this host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::grant::Grant;
use crate::launcher::Launcher;
use crate::process::leftovers::Leftovers;

/// The setting of one backend instance. It never changes with a request.
#[derive(Clone, PartialEq, Eq)]
pub struct CliConfig {
    /// The program; by default the agent's usual name, found on the host's `PATH`.
    pub program: Option<PathBuf>,
    /// The host's environment, of which only a short list reaches the agent.
    pub host_env: BTreeMap<String, String>,
    /// What the agent gets beside that list.
    pub env: BTreeMap<String, String>,
    pub home: Home,
    /// Where runs happen that name no folder; by default an empty folder that is gone after the run.
    pub working_dir: Option<PathBuf>,
    /// How long a run may take that does not say; by default without limit.
    pub timeout: Option<Duration>,
    /// How long an agent may print nothing; by default without limit.
    pub idle_timeout: Option<Duration>,
    /// How long an agent may take to end after a request or a signal, before the next step.
    pub kill_grace: Duration,
    /// A longer line is skipped.
    pub max_line_bytes: usize,
    /// The tools for requests that name none; by default none.
    pub grants: BTreeSet<Grant>,
    /// Where running processes are remembered for a host that starts after a crash.
    pub leftovers: Option<Leftovers>,
    /// Paths that no agent may read. Agents with rules for paths get them; a [`Launcher`] enforces it for the others.
    pub hidden: Vec<PathBuf>,
    /// Where the private folders of runs are made; by default the system's temporary one.
    pub scratch: Option<PathBuf>,
    /// What is put before every command; by default nothing.
    pub launcher: Option<Launcher>,
    /// Offers [`crate::capability::EXTERNAL_SANDBOX`], which switches the agent's own walls off.
    pub allow_external_sandbox: bool,
    /// Offers to add and remove MCP servers.
    pub allow_mcp_write: bool,
}

/// What an agent sees as its home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// A new empty folder per run. Nothing of the user is seen, and no session outlives its run.
    Private,
    /// This folder, made when it is missing. Sessions live here.
    Kept(PathBuf),
}

/// Long enough to write a session to disk.
const KILL_GRACE: Duration = Duration::from_secs(3);
/// Far above what agents print in one line, far below what a host can spare.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

impl Default for CliConfig {
    fn default() -> Self {
        Self {
            program: None,
            host_env: BTreeMap::new(),
            env: BTreeMap::new(),
            home: Home::Private,
            working_dir: None,
            timeout: None,
            idle_timeout: None,
            kill_grace: KILL_GRACE,
            max_line_bytes: MAX_LINE_BYTES,
            grants: BTreeSet::new(),
            leftovers: None,
            hidden: Vec::new(),
            scratch: None,
            launcher: None,
            allow_external_sandbox: false,
            allow_mcp_write: false,
        }
    }
}

impl CliConfig {
    /// The defaults with the environment of this process to choose from.
    #[must_use]
    pub fn from_host() -> Self {
        let text = |value: std::ffi::OsString| value.into_string().ok();
        let host_env = std::env::vars_os()
            .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
            .collect();
        Self { host_env, ..Self::default() }
    }

    #[must_use]
    pub fn grant(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.grants.extend(grants);
        self
    }
}

/// Environment values stay out of logs.
impl fmt::Debug for CliConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CliConfig")
            .field("program", &self.program)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("home", &self.home)
            .field("grants", &self.grants)
            .finish_non_exhaustive()
    }
}
