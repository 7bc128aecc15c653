//! The backend of every command-line agent: validate, plan, start.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::backend::{AgentBackend, BoxFuture};
use crate::capability::{self, AgentCapabilities};
use crate::config::{CliConfig, Home};
use crate::error::{AgentError, FailureClass};
use crate::handle::{AgentRunControl, AgentRunHandle};
use crate::kind::AgentKind;
use crate::launcher::find_program;
use crate::mcp::{
    self, McpAddRequest, McpCommandContext, McpCommandOutput, McpGetRequest, McpListRequest,
    McpRemoveRequest,
};
use crate::options::{Origin, Selector, validate};
use crate::permission::{AttendedRun, Decisions};
use crate::process::capture::capture;
use crate::process::environment::{compose, folders};
use crate::process::group::Kernel;
use crate::process::scratch::{Scratch, private_folder, write_new};
use crate::process::spawn::{Command, Keeper, failed};
use crate::process::supervise::{Attendance, Launch, Limits, start};
use crate::request::AgentRunRequest;
use crate::sessions::SessionBook;

mod agent;
mod ask;

pub(crate) use agent::{CliAgent, McpCommand, Plan, Scene};

/// What every agent here has.
const SHARED: [&str; 6] = [
    capability::RUN,
    capability::EVENTS,
    capability::CONTROL_CANCEL,
    capability::TOOLS_STRUCTURED,
    capability::TOOLS_RESULTS,
    capability::NON_INTERACTIVE,
];

/// Exactly these words, by contract.
const SANDBOX_WARNING: &str =
    "DANGEROUS: external sandbox exec policy enabled (agent_api.exec.external_sandbox.v1=true)";

/// A backend that starts one program per run, in a process group of its own.
///
/// Made by [`claude_code`](crate::backends::claude_code::backend), [`codex`](crate::backends::codex::backend) and
/// the others in [`backends`](crate::backends).
pub struct CliBackend {
    agent: Box<dyn CliAgent>,
    config: CliConfig,
    keeper: Keeper,
    help: OnceCell<String>,
}

impl fmt::Debug for CliBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CliBackend")
            .field("kind", &self.agent.kind())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl CliBackend {
    pub(crate) fn new(agent: impl CliAgent + 'static, config: CliConfig) -> Self {
        let keeper = Keeper { signals: Arc::new(Kernel), leftovers: config.leftovers.clone() };
        Self { agent: Box::new(agent), config, keeper, help: OnceCell::new() }
    }

    #[cfg(test)]
    pub(crate) fn with_signals(mut self, signals: Arc<dyn crate::process::group::Signals>) -> Self {
        self.keeper.signals = signals;
        self
    }

    /// Like [`AgentBackend::run_control`], but a request for something that was not granted is reported as an event
    /// ([`PermissionRequest`](crate::PermissionRequest)) and waits for a decision. An agent that has waited for
    /// `patience` is ended, with the error `approval required`. Agents that never ask run like any other.
    pub async fn run_attended(
        &self,
        request: AgentRunRequest,
        patience: Duration,
    ) -> Result<AttendedRun, AgentError> {
        let (decisions, receiver) = Decisions::new();
        let attendance = Attendance { decisions: receiver, patience };
        let control = self.start(request, Some(attendance)).await?;
        Ok(AttendedRun { control, decisions })
    }

    async fn start(
        &self,
        request: AgentRunRequest,
        attendance: Option<Attendance>,
    ) -> Result<AgentRunControl, AgentError> {
        let scratch = Scratch::new(self.config.scratch.as_deref()).map_err(|_| no_folder())?;
        let working_dir = self.working_dir(request.working_dir.as_deref(), &scratch.work())?;
        let kind = self.agent.kind();
        let options = validate(&kind, &self.capabilities(), &request, &working_dir)?;
        let home = self.home(&request.env, &scratch);
        let book =
            self.home_is_kept(&request.env).then(|| SessionBook::new(&home, &kind, &working_dir));
        let resolved = resolve(options.origin.clone(), book.as_ref());
        let environment =
            |plan: BTreeMap<String, String>| self.environment(&home, &scratch, plan, &request.env);
        let known = environment(BTreeMap::new());
        let help = if self.agent.needs_help(&options) {
            self.help(known.clone(), &working_dir, (&home, &scratch)).await?
        } else {
            ""
        };
        let plan = self.agent.plan(&Scene {
            prompt: &request.prompt,
            options: &options,
            // What makes no sense is refused as such, even where its session is missing too.
            origin: resolved.clone().unwrap_or(Origin::New),
            grants: options.grants.as_ref().unwrap_or(&self.config.grants),
            is_attended: attendance.is_some(),
            working_dir: &working_dir,
            home: &home,
            files: &|name| scratch.file(name),
            help,
            hidden: &self.config.hidden,
            has_variable: &|name| known.contains_key(name),
        })?;
        resolved?;
        prepare(&plan, &home, &scratch).map_err(|_| no_folder())?;
        let environment = fortify(environment(plan.env), plan.walls)?;
        start(Launch {
            command: self.command(plan.args, environment, working_dir, (&home, &scratch))?,
            keeper: self.keeper.clone(),
            prompt: plan.prompt,
            transcript: plan.transcript,
            limits: self.limits(request.timeout),
            delivery: plan.delivery,
            warning: options.external_sandbox.then_some(SANDBOX_WARNING),
            sessions: book,
            attendance,
            scratch,
        })
    }

    /// The request's folder, else the configured one, else `fallback`.
    fn working_dir(&self, asked: Option<&Path>, fallback: &Path) -> Result<PathBuf, AgentError> {
        match asked.or(self.config.working_dir.as_deref()) {
            Some(folder) => std::path::absolute(folder).map_err(|_| no_folder()),
            None => Ok(fallback.to_path_buf()),
        }
    }

    fn home(&self, request: &BTreeMap<String, String>, scratch: &Scratch) -> PathBuf {
        if let Some(home) = request.get("HOME").or_else(|| self.config.env.get("HOME")) {
            return home.into();
        }
        match &self.config.home {
            Home::Private => scratch.home(),
            Home::Kept(home) => std::path::absolute(home).unwrap_or_else(|_| home.clone()),
        }
    }

    fn home_is_kept(&self, request: &BTreeMap<String, String>) -> bool {
        self.config.home != Home::Private
            || request.contains_key("HOME")
            || self.config.env.contains_key("HOME")
    }

    fn environment(
        &self,
        home: &Path,
        scratch: &Scratch,
        plan: BTreeMap<String, String>,
        request: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut ours = folders(home, &scratch.temporary());
        ours.extend(plan);
        compose(&self.config.host_env, self.agent.variables(), ours, &self.config.env, request)
    }

    fn program(&self) -> PathBuf {
        self.config.program.clone().unwrap_or_else(|| self.agent.program().into())
    }

    /// The command to start, after the host's launcher where it has one. The folders are the home and the run's own.
    fn command(
        &self,
        args: Vec<String>,
        environment: BTreeMap<String, String>,
        working_dir: PathBuf,
        (home, scratch): (&Path, &Scratch),
    ) -> Result<Command, AgentError> {
        let program = self.program();
        let Some(launcher) = &self.config.launcher else {
            return Ok(Command { program, args, environment, working_dir });
        };
        let program = find_program(&program, &environment).map_err(|error| failed(&error))?;
        let mut words =
            launcher.wrap(&program, &args, &[home, &working_dir, scratch.top()]).into_iter();
        let program = words.next().unwrap_or_default().into();
        Ok(Command { program, args: words.collect(), environment, working_dir })
    }

    fn limits(&self, asked: Option<Duration>) -> Limits {
        Limits {
            total: asked.or(self.config.timeout).filter(|limit| !limit.is_zero()),
            idle: self.config.idle_timeout.filter(|limit| !limit.is_zero()),
            kill_grace: self.config.kill_grace,
            line_bytes: self.config.max_line_bytes,
        }
    }

    /// Asked once: a program does not learn options while we run.
    async fn help(
        &self,
        environment: BTreeMap<String, String>,
        working_dir: &Path,
        folders: (&Path, &Scratch),
    ) -> Result<&str, AgentError> {
        let args = vec!["--help".into()];
        let command = self.command(args, environment, working_dir.to_path_buf(), folders)?;
        let asked = async {
            capture(&command, &self.keeper, Some(ask::PATIENCE)).await.map(|output| output.stdout)
        };
        self.help.get_or_try_init(|| asked).await.map(String::as_str)
    }

    async fn manage(
        &self,
        id: &'static str,
        command: McpCommand,
        context: McpCommandContext,
    ) -> Result<McpCommandOutput, AgentError> {
        let offered = self.capabilities().contains(id).then(|| self.agent.mcp(command)).flatten();
        let args = offered.ok_or_else(|| AgentError::UnsupportedCapability {
            agent_kind: self.agent.kind(),
            capability: id.into(),
        })??;
        let scratch = Scratch::new(self.config.scratch.as_deref()).map_err(|_| no_folder())?;
        let home = self.home(&context.env, &scratch);
        private_folder(&home).map_err(|_| no_folder())?;
        let environment = self.environment(&home, &scratch, BTreeMap::new(), &context.env);
        let working_dir = self.working_dir(context.working_dir.as_deref(), &scratch.work())?;
        let command = self.command(args, environment, working_dir, (&home, &scratch))?;
        capture(&command, &self.keeper, context.timeout.or(self.config.timeout)).await
    }
}

/// Adds what holds the agent to its grants. Whoever sets that themselves would lift it.
fn fortify(
    mut environment: BTreeMap<String, String>,
    walls: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, AgentError> {
    if let Some(name) = walls.keys().find(|name| environment.contains_key(*name)) {
        return Err(AgentError::invalid(format!("{name} is set by the backend")));
    }
    environment.extend(walls);
    Ok(environment)
}

/// Makes what the plan needs to find.
fn prepare(plan: &Plan, home: &Path, scratch: &Scratch) -> io::Result<()> {
    private_folder(home)?;
    for folder in &plan.folders {
        private_folder(folder)?;
    }
    for (name, content) in &plan.home_files {
        let path = home.join(name);
        private_folder(path.parent().unwrap_or(home))?;
        match write_new(&path, content) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
    }
    plan.files.iter().try_for_each(|(name, content)| scratch.write(name, content))
}

/// Replaces `last` by the session that it means. Asking the agent would start a fresh one instead.
fn resolve(origin: Origin, book: Option<&SessionBook>) -> Result<Origin, AgentError> {
    let last = || {
        book.and_then(SessionBook::last)
            .map(Selector::Id)
            .ok_or_else(|| AgentError::backend(FailureClass::SessionMissing, "no session found"))
    };
    Ok(match origin {
        Origin::Resume(Selector::Last) => Origin::Resume(last()?),
        Origin::Fork(Selector::Last) => Origin::Fork(last()?),
        Origin::New | Origin::Resume(_) | Origin::Fork(_) => origin,
    })
}

fn no_folder() -> AgentError {
    AgentError::backend(FailureClass::Spawn, "the folders of the run could not be made")
}

impl AgentBackend for CliBackend {
    fn kind(&self) -> AgentKind {
        self.agent.kind()
    }

    fn capabilities(&self) -> AgentCapabilities {
        let kind = self.agent.kind();
        let mut ids: BTreeSet<String> = SHARED.map(Into::into).into();
        ids.extend(self.agent.capabilities());
        ids.insert(format!("backend.{kind}.{}", capability::TOOLS_SUFFIX));
        if self.config.allow_external_sandbox && self.agent.offers_external_sandbox() {
            ids.insert(capability::EXTERNAL_SANDBOX.into());
        }
        if !self.config.allow_mcp_write {
            ids.remove(capability::MCP_ADD);
            ids.remove(capability::MCP_REMOVE);
        }
        AgentCapabilities { ids }
    }

    fn run(&self, request: AgentRunRequest) -> BoxFuture<'_, Result<AgentRunHandle, AgentError>> {
        Box::pin(async { self.start(request, None).await.map(|control| control.handle) })
    }

    fn run_control(
        &self,
        request: AgentRunRequest,
    ) -> BoxFuture<'_, Result<AgentRunControl, AgentError>> {
        Box::pin(self.start(request, None))
    }

    fn mcp_list(
        &self,
        request: McpListRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        Box::pin(self.manage(capability::MCP_LIST, McpCommand::List, request.context))
    }

    fn mcp_get(
        &self,
        request: McpGetRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        Box::pin(async move {
            let command = McpCommand::Get(mcp::server_name(&request.name)?);
            self.manage(capability::MCP_GET, command, request.context).await
        })
    }

    fn mcp_add(
        &self,
        request: McpAddRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        Box::pin(async move {
            let name = mcp::server_name(&request.name)?;
            let command = McpCommand::Add(name, mcp::transport(request.transport)?);
            self.manage(capability::MCP_ADD, command, request.context).await
        })
    }

    fn mcp_remove(
        &self,
        request: McpRemoveRequest,
    ) -> BoxFuture<'_, Result<McpCommandOutput, AgentError>> {
        Box::pin(async move {
            let command = McpCommand::Remove(mcp::server_name(&request.name)?);
            self.manage(capability::MCP_REMOVE, command, request.context).await
        })
    }
}

#[cfg(test)]
pub(crate) mod rehearsal;
