//! Coding agents: which there are, what they may use, where they work.

mod grants;
mod held;
mod kinds;
mod listen;
mod sessions;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use callboard_agent_api::{
    AgentBackend, AgentError, AgentRunRequest, CliBackend, CliConfig, FailureClass, Grant,
    Launcher, Leftovers, capability,
};
use callboard_agents::{
    Admitted, Begin, CodingAgents, CodingError, CodingFault, CodingReport, CodingTask, StepSink,
};
use callboard_engine::CodingSessions;
use callboard_protocol::{RunId, Tenant, hex};

use crate::folders::RunFolders;

pub use kinds::{CODING_KINDS, CodingKind, KindFacts};

use grants::Allowed;
use held::Held;
use listen::Listener;

/// What an operator decides about coding agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliSettings {
    /// Where they work; by default a folder of the run's own.
    pub work_dir: Option<PathBuf>,
    /// What they see as their home; by default a folder of the visit's own.
    pub home: Option<PathBuf>,
    /// Variables of the host that reach them beside those that they need.
    pub env: Vec<String>,
    /// How long one may print nothing.
    pub idle_timeout: Duration,
    /// How long one is held while a person is asked what it may do.
    pub hold: Duration,
    /// What they may read beside the system, their programs and their own folders.
    pub read: Vec<PathBuf>,
    /// What they may also change.
    pub write: Vec<PathBuf>,
    /// What is special about one of them, by its kind.
    pub agents: BTreeMap<String, CliAgentSettings>,
}

impl Default for CliSettings {
    fn default() -> Self {
        Self {
            work_dir: None,
            home: None,
            env: Vec::new(),
            // A build or a test run prints nothing through the agent while it lasts.
            idle_timeout: Duration::from_secs(30 * 60),
            // A person at the inbox has answered by then; otherwise a process would wait too long.
            hold: Duration::from_secs(60),
            read: Vec::new(),
            write: Vec::new(),
            agents: BTreeMap::new(),
        }
    }
}

/// What an operator decides about one coding agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CliAgentSettings {
    /// The program, where it is not found on `PATH` under its usual name.
    pub program: Option<PathBuf>,
    /// The model that it asks, in its own words.
    pub model: Option<String>,
    /// Whether it asks before it leaves its sandbox. Only Codex can.
    pub approvals: bool,
    /// The program and its arguments, where it is an agent of the operator's own that speaks the Agent Client Protocol.
    pub acp: Option<Vec<String>>,
    /// Where such an agent keeps its sessions, below its home.
    pub sessions: Vec<PathBuf>,
}

/// Where coding agents live on this host.
#[derive(Debug, Clone)]
pub struct CliSurroundings {
    /// The host's environment, of which agents see little.
    pub environment: BTreeMap<String, String>,
    pub folders: RunFolders,
    /// Where running processes are remembered for a host that starts after a crash.
    pub records: Option<PathBuf>,
    /// Where session files are kept for a host that has lost them.
    pub sessions: Option<CodingSessions>,
    /// What no agent may look at.
    pub hidden: Vec<PathBuf>,
    /// Where what each of them needs for a moment is put; none: in the system's temporary folder.
    pub scratch: Option<PathBuf>,
    /// What locks them in before they begin.
    pub launcher: Option<Launcher>,
}

/// The coding agents that this host can start.
#[derive(Debug)]
pub struct CliAgents {
    settings: CliSettings,
    folders: RunFolders,
    backends: BTreeMap<String, CliBackend>,
    held: Held,
    sessions: Option<CodingSessions>,
}

impl CliAgents {
    pub fn new(settings: CliSettings, surroundings: CliSurroundings) -> Self {
        let CliSurroundings { environment, folders, records, sessions, hidden, scratch, launcher } =
            surroundings;
        let config = |program: Option<PathBuf>| {
            let mut config = CliConfig {
                program,
                host_env: environment.clone(),
                idle_timeout: Some(settings.idle_timeout),
                leftovers: records.clone().map(Leftovers::at),
                hidden: hidden.clone(),
                scratch: scratch.clone(),
                launcher: launcher.clone(),
                ..CliConfig::default()
            };
            for name in &settings.env {
                if let Some(value) = environment.get(name) {
                    config.env.insert(name.clone(), value.clone());
                }
            }
            config
        };
        let known = CODING_KINDS.iter().map(|kind| {
            let ours = settings.agents.get(kind.name);
            let mut config = config(ours.and_then(|ours| ours.program.clone()));
            config.env.extend(kind.own_variables(&environment, settings.home.is_none()));
            let approvals = ours.is_some_and(|ours| ours.approvals);
            (kind.name.to_owned(), kind.backend(config, approvals))
        });
        let own = settings.agents.iter().filter_map(|(name, ours)| {
            let backend = kinds::acp(name, ours.acp.as_deref()?, config(None))?;
            Some((name.clone(), backend))
        });
        let backends = known.chain(own).collect();
        Self { settings, folders, backends, held: Held::default(), sessions }
    }

    /// The runs for which a program waits while a person is asked.
    pub fn held(&self) -> Vec<(Tenant, RunId)> {
        self.held.runs()
    }

    /// Ends the programs that wait for a run.
    pub fn release(&self, tenant: &Tenant, run: &RunId) {
        self.held.end(tenant, run);
    }

    /// Ends what a host that crashed has left running; answers how many agents that were.
    pub fn clean_up(records: PathBuf) -> std::io::Result<usize> {
        Leftovers::at(records).clean_up()
    }

    /// Ends what the process `host` runs, also while it lives; answers how many agents that were.
    pub fn end_of(records: PathBuf, host: u32) -> std::io::Result<usize> {
        Leftovers::at(records).end_of(host)
    }

    /// What a program says when it is asked for its version.
    pub async fn version(&self, kind: &str) -> Result<String, CodingError> {
        let backend = self.backend(kind)?;
        backend.version().await.map_err(|error| failed(kind, &error))
    }

    fn backend(&self, kind: &str) -> Result<&CliBackend, CodingError> {
        self.backends.get(kind).ok_or_else(|| {
            let known: Vec<&str> = self.backends.keys().map(String::as_str).collect();
            let message = format!("no coding agent is called so; known: {}", known.join(", "));
            CodingError::new(kind, CodingFault::Missing, message)
        })
    }

    fn request(
        &self,
        task: &CodingTask<'_>,
        backend: &CliBackend,
        grants: &BTreeSet<Grant>,
        session: Session,
    ) -> Result<AgentRunRequest, CodingError> {
        let made = self.folders.prepare(task.tenant, task.run).map_err(|error| {
            tracing::warn!(%error, run = %task.run, "no folder for a coding agent");
            CodingError::new(task.kind, CodingFault::Broken, "its folders could not be made")
        })?;
        let home = match &self.settings.home {
            Some(home) => home.clone(),
            None => made.home(task.node, task.visit),
        };
        let own = |name: &str| format!("backend.{}.{name}", backend.kind());
        let names: Vec<&str> = grants.iter().map(|grant| grant.name()).collect();
        let mut request = AgentRunRequest::new(task.prompt)
            .extension(own("exec.tools.v1"), serde_json::json!(names));
        request.working_dir = Some(self.settings.work_dir.clone().unwrap_or_else(|| made.work()));
        request.env.insert("HOME".to_owned(), home.to_string_lossy().into_owned());
        if let Some(key) = &task.key {
            let Some(variable) = kinds::find(task.kind).and_then(|kind| kind.key) else {
                let message = "it takes no key of a run";
                return Err(CodingError::new(task.kind, CodingFault::Forbidden, message));
            };
            request.env.insert(variable.to_owned(), key.reveal().to_owned());
        }
        let ours = self.settings.agents.get(task.kind);
        if let Some(model) = ours.and_then(|ours| ours.model.as_deref()) {
            request = request.extension(capability::MODEL, model);
        }
        Ok(match session {
            Session::Unnamed => request,
            Session::New(id) => request.extension(own("session.new_id.v1"), id),
            Session::Old(id) => {
                let selector = serde_json::json!({ "selector": "id", "id": id });
                request.extension(capability::SESSION_RESUME, selector)
            }
        })
    }
}

/// Which session a program is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Session {
    Unnamed,
    New(String),
    Old(String),
}

#[async_trait]
impl CodingAgents for CliAgents {
    fn admit(&self, kind: &str, allowlist: &[String]) -> Result<Admitted, CodingError> {
        let backend = self.backend(kind)?;
        let Allowed { grants, tools, unknown } = Allowed::of(kind, allowlist);
        backend.check_grants(&grants).map_err(|error| not_held(kind, &error))?;
        let changing = [Grant::WriteFiles, Grant::Shell];
        Ok(Admitted {
            tools,
            unknown,
            changes_things: changing.iter().any(|grant| grants.contains(grant)),
            names_sessions: names_sessions(backend),
        })
    }

    async fn work(
        &self,
        task: CodingTask<'_>,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, CodingError> {
        if task.begin != Begin::Fresh {
            self.restore(&task).await;
        }
        let worked = self.have_done(&task, steps).await;
        self.keep(&task).await;
        worked
    }
}

impl CliAgents {
    async fn have_done(
        &self,
        task: &CodingTask<'_>,
        steps: &mut dyn StepSink,
    ) -> Result<CodingReport, CodingError> {
        let backend = self.backend(task.kind)?;
        let grants = Allowed::of(task.kind, task.allowlist).grants;
        let named = names_sessions(backend).then(|| session_name(task.effect));
        let fresh = named.clone().map_or(Session::Unnamed, Session::New);
        let session = match (task.begin, named) {
            (Begin::Resume(id) | Begin::Perhaps(Some(id)), _) => Session::Old(id.to_owned()),
            (Begin::Perhaps(None), Some(name)) => Session::Old(name),
            (Begin::Perhaps(None) | Begin::Fresh, _) => fresh.clone(),
        };
        let is_dispensable =
            matches!(task.begin, Begin::Perhaps(_)) && matches!(session, Session::Old(_));
        let (held, hold) = (&self.held, self.settings.hold);
        let listener = Listener { backend, grants: &grants, task, held, hold };
        if let Some(decision) = task.decision {
            if let Some(waiting) = held.take(&decision.permission.id)
                && let Some(report) = listener.go_on(waiting, decision, &mut *steps).await?
            {
                return Ok(report);
            }
            if !matches!(session, Session::Old(_)) {
                let message = "it was stopped while a person decided, and its session has no name";
                return Err(CodingError::new(task.kind, CodingFault::SessionMissing, message));
            }
        }
        let request = self.request(task, backend, &grants, session)?;
        let worked = listener.run(request, &mut *steps).await;
        match worked {
            // Nothing had begun under that name, or nothing but talk, so nothing is lost by beginning now.
            Err(error) if is_dispensable && error.fault == CodingFault::SessionMissing => {
                let request = self.request(task, backend, &grants, fresh)?;
                listener.run(request, steps).await
            }
            other => other,
        }
    }
}

fn names_sessions(backend: &CliBackend) -> bool {
    let id = format!("backend.{}.session.new_id.v1", backend.kind());
    backend.capabilities().contains(&id)
}

/// A UUID that the same effect always gets.
fn session_name(effect: &str) -> String {
    let digest = Sha256::digest(effect);
    let mut bytes: [u8; 16] = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = hex(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn not_held(kind: &str, error: &AgentError) -> CodingError {
    let said = error.to_string();
    let reason = said.strip_prefix("not started: ").unwrap_or(&said);
    let message = format!("it cannot be held to the tools that the agent may use: {reason}");
    CodingError::new(kind, CodingFault::NotHeld, message)
}

/// What an error of the program means to a run.
fn failed(kind: &str, error: &AgentError) -> CodingError {
    let fault = match error.class() {
        None => CodingFault::Rejected,
        Some(class) => match class {
            FailureClass::Spawn | FailureClass::ModelRejected => CodingFault::Missing,
            FailureClass::Auth => CodingFault::Forbidden,
            FailureClass::RateLimit => CodingFault::Limited,
            FailureClass::Upstream5xx => CodingFault::Trouble,
            FailureClass::InvalidRequest => CodingFault::Rejected,
            FailureClass::Refused => CodingFault::Declined,
            FailureClass::Permission => CodingFault::NotHeld,
            FailureClass::SessionMissing => CodingFault::SessionMissing,
            FailureClass::TurnLimit => CodingFault::TurnLimit,
            FailureClass::Timeout => CodingFault::TimedOut,
            _ => CodingFault::Broken,
        },
    };
    CodingError::new(kind, fault, error.to_string())
}

#[cfg(test)]
mod tests;
