//! Codex: `codex exec --json`, or `codex app-server` where a person can be asked.

mod app_server;
mod item;
mod lines;
mod profile;

use crate::capability;
use crate::cli::{CliAgent, CliBackend, McpCommand, Plan, Scene};
use crate::config::CliConfig;
use crate::error::{AgentError, FailureClass};
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::mcp::Transport;
use crate::options::{Origin, invalid};
use crate::process::supervise::Prompt;
use crate::transcript::{Conversation, Transcript};

use super::{args, cannot_be_held};

/// The id of this backend.
pub const KIND: &str = "codex";
/// An extension key: `untrusted`, `on-failure`, `on-request` or `never`.
pub const APPROVAL_POLICY: &str = "backend.codex.exec.approval_policy";
/// An extension key: `read-only`, `workspace-write` or `danger-full-access`.
pub const SANDBOX_MODE: &str = "backend.codex.exec.sandbox_mode";

/// A backend that starts `codex`. It needs [`Grant::Shell`]: a shell is all that Codex has.
#[must_use]
pub fn backend(config: CliConfig) -> CliBackend {
    CliBackend::new(Codex, config)
}

/// A backend that drives `codex app-server`. It needs [`Grant::Shell`] too; a use of its tools that leaves the sandbox
/// is asked for where the run is attended, and denied where it is not.
#[must_use]
pub fn app_server(config: CliConfig) -> CliBackend {
    CliBackend::new(app_server::AppServer, config)
}

/// Reads what `codex app-server` printed in a new thread.
#[must_use]
pub fn app_server_transcript() -> Transcript {
    app_server::transcript()
}

/// Reads what a run printed.
#[must_use]
pub fn transcript(conversation: Conversation) -> Transcript {
    Transcript::new(AgentKind::known(KIND), lines::Lines::new(conversation))
}

struct Codex;

impl CliAgent for Codex {
    fn kind(&self) -> AgentKind {
        AgentKind::known(KIND)
    }

    fn program(&self) -> &'static str {
        "codex"
    }

    fn variables(&self) -> &[&str] {
        &["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"]
    }

    fn capabilities(&self) -> Vec<String> {
        [
            capability::EVENTS_LIVE,
            capability::MODEL,
            capability::FINAL_TEXT,
            capability::SESSION_HANDLE,
            capability::SESSION_RESUME,
            capability::SESSION_FORK,
            capability::ADD_DIRS,
            capability::MCP_LIST,
            capability::MCP_GET,
            capability::MCP_ADD,
            capability::MCP_REMOVE,
            "backend.codex.exec_stream",
            APPROVAL_POLICY,
            SANDBOX_MODE,
        ]
        .map(Into::into)
        .into()
    }

    fn offers_external_sandbox(&self) -> bool {
        true
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError> {
        let home = scene.home.join(".codex");
        let prompt = Prompt::Whole(scene.prompt.into());
        Ok(Plan {
            env: [("CODEX_HOME".into(), home.to_string_lossy().into_owned())].into(),
            // It warns when the folder is not there.
            folders: vec![home],
            ..Plan::live(arguments(scene)?, prompt, transcript(scene.conversation()))
        })
    }

    fn mcp(&self, command: McpCommand) -> Option<Result<Vec<String>, AgentError>> {
        Some(Ok(mcp(command)))
    }
}

fn arguments(scene: &Scene<'_>) -> Result<Vec<String>, AgentError> {
    let options = scene.options;
    let mut list = walls(scene)?;
    list.extend(args!["exec", "--color", "never", "--skip-git-repo-check", "--json"]);
    if matches!(scene.origin, Origin::Fork(_)) {
        let refused = |message| Err(AgentError::backend(FailureClass::InvalidRequest, message));
        if options.model.is_some() {
            return refused("model override unsupported for codex fork");
        }
        if !options.add_dirs.is_empty() {
            return refused("add_dirs unsupported for codex fork");
        }
    }
    if let Some(model) = &options.model {
        list.extend(args!["--model", model]);
    }
    for dir in &options.add_dirs {
        list.extend(args!["--add-dir", dir.to_string_lossy()]);
    }
    if let Some(id) = scene.continues() {
        let verb = if matches!(scene.origin, Origin::Fork(_)) { "fork" } else { "resume" };
        list.extend(args![verb, id]);
    }
    list.push("-".into());
    Ok(list)
}

/// Options of the program itself: after `exec` they are refused.
fn walls(scene: &Scene<'_>) -> Result<Vec<String>, AgentError> {
    if scene.options.external_sandbox {
        return Ok(args!["--dangerously-bypass-approvals-and-sandbox"].into());
    }
    if !scene.has(Grant::Shell) {
        return Err(cannot_be_held("codex always has a shell, which was not granted"));
    }
    let mut list: Vec<String> = args!["--ask-for-approval", approval(scene)?].into();
    let sandbox = sandbox(scene)?;
    match profile::settings(scene, sandbox) {
        Some(settings) => list.extend(settings),
        None => list.extend(args!["--sandbox", sandbox]),
    }
    Ok(list)
}

fn approval<'a>(scene: &'a Scene<'_>) -> Result<&'a str, AgentError> {
    let asked = scene.options.private.get("exec.approval_policy").map(String::as_str);
    match (asked, scene.options.non_interactive) {
        (None | Some("never"), true) => Ok("never"),
        (None, false) => Ok("on-request"),
        (Some(policy @ ("untrusted" | "on-failure" | "on-request" | "never")), false) => Ok(policy),
        (Some("untrusted" | "on-failure" | "on-request"), true) => Err(AgentError::invalid(
            format!("{APPROVAL_POLICY} contradicts {}", capability::NON_INTERACTIVE),
        )),
        (Some(_), _) => Err(invalid(APPROVAL_POLICY)),
    }
}

/// The sandbox stands for the grants that a shell would otherwise step over.
fn sandbox<'a>(scene: &'a Scene<'_>) -> Result<&'a str, AgentError> {
    let writes = scene.has(Grant::WriteFiles);
    let asked = scene.options.private.get("exec.sandbox_mode").map(String::as_str);
    match asked {
        None if writes => Ok("workspace-write"),
        None => Ok("read-only"),
        Some("read-only") => Ok("read-only"),
        Some("workspace-write") if writes => Ok("workspace-write"),
        Some("danger-full-access") if writes && scene.has(Grant::FetchWeb) => {
            Ok("danger-full-access")
        }
        Some("workspace-write" | "danger-full-access") => {
            Err(cannot_be_held("the sandbox mode allows more than was granted"))
        }
        Some(_) => Err(invalid(SANDBOX_MODE)),
    }
}

fn mcp(command: McpCommand) -> Vec<String> {
    match command {
        McpCommand::List => args!["mcp", "list", "--json"].into(),
        McpCommand::Get(name) => args!["mcp", "get", "--json", name].into(),
        McpCommand::Remove(name) => args!["mcp", "remove", name].into(),
        McpCommand::Add(name, Transport::Stdio { argv, env }) => {
            let mut list: Vec<String> = args!["mcp", "add", name].into();
            for (variable, value) in env {
                list.extend(args!["--env", format!("{variable}={value}")]);
            }
            list.push("--".into());
            list.extend(argv);
            list
        }
        McpCommand::Add(name, Transport::Url { url, bearer_token_env_var }) => {
            let mut list: Vec<String> = args!["mcp", "add", name, "--url", url].into();
            if let Some(variable) = bearer_token_env_var {
                list.extend(args!["--bearer-token-env-var", variable]);
            }
            list
        }
    }
}

#[cfg(test)]
mod tests;
