//! Codex as a server: `codex app-server`, which asks before it leaves its sandbox.

mod consent;
mod dialogue;
mod items;

use crate::capability;
use crate::cli::{CliAgent, McpCommand, Plan, Scene};
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::options::Origin;
use crate::process::supervise::Prompt;
use crate::transcript::Transcript;

use super::{Codex, KIND, SANDBOX_MODE, mcp, profile, sandbox};
use crate::backends::{args, cannot_be_held};

use dialogue::{Dialogue, Terms};

pub(super) struct AppServer;

/// Reads the output of a server in a thread that never asks and may write into its folder.
pub(super) fn transcript() -> Transcript {
    let terms = Terms {
        working_dir: "/".into(),
        approval: "never",
        sandbox: "workspace-write".into(),
        has_profile: false,
        may_fetch: false,
        model: None,
    };
    Transcript::new(AgentKind::known(KIND), Dialogue::new(String::new(), Origin::New, terms))
}

impl CliAgent for AppServer {
    fn kind(&self) -> AgentKind {
        Codex.kind()
    }

    fn program(&self) -> &'static str {
        "codex"
    }

    fn variables(&self) -> &[&str] {
        Codex.variables()
    }

    fn capabilities(&self) -> Vec<String> {
        [
            capability::EVENTS_LIVE,
            capability::MODEL,
            capability::FINAL_TEXT,
            capability::SESSION_HANDLE,
            capability::SESSION_RESUME,
            capability::MCP_LIST,
            capability::MCP_GET,
            capability::MCP_ADD,
            capability::MCP_REMOVE,
            SANDBOX_MODE,
        ]
        .map(Into::into)
        .into()
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError> {
        if !scene.has(Grant::Shell) {
            return Err(cannot_be_held("codex always has a shell, which was not granted"));
        }
        let sandbox = sandbox(scene)?;
        let settings = profile::settings(scene, sandbox);
        let terms = Terms {
            working_dir: scene.working_dir.to_string_lossy().into_owned(),
            // Where no one can be asked, nothing may be asked for.
            approval: if scene.is_attended { "on-request" } else { "never" },
            sandbox: sandbox.to_owned(),
            has_profile: settings.is_some(),
            may_fetch: scene.has(Grant::FetchWeb),
            model: scene.options.model.clone(),
        };
        let home = scene.home.join(".codex");
        let dialogue = Dialogue::new(scene.prompt.into(), scene.origin.clone(), terms);
        let opening = format!("{}\n", Dialogue::opening());
        let prompt = Prompt::Opening(opening.into_bytes());
        let mut arguments: Vec<String> = args!["app-server"].into();
        arguments.extend(settings.into_iter().flatten());
        let transcript = Transcript::new(self.kind(), dialogue);
        Ok(Plan {
            env: [("CODEX_HOME".into(), home.to_string_lossy().into_owned())].into(),
            folders: vec![home],
            ..Plan::live(arguments, prompt, transcript)
        })
    }

    fn mcp(&self, command: McpCommand) -> Option<Result<Vec<String>, AgentError>> {
        Some(Ok(mcp(command)))
    }
}

#[cfg(test)]
mod tests;
