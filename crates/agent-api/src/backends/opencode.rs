//! OpenCode: `opencode run --format json`.

mod lines;

use serde_json::json;

use crate::capability;
use crate::cli::{CliAgent, CliBackend, Plan, Scene};
use crate::config::CliConfig;
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::options::Origin;
use crate::process::supervise::Prompt;
use crate::transcript::{Conversation, Transcript};

use super::{args, cannot_be_held};

/// The id of this backend.
pub const KIND: &str = "opencode";

/// A backend that starts `opencode`. It needs [`Grant::Shell`], for its own default is to allow one.
#[must_use]
pub fn backend(config: CliConfig) -> CliBackend {
    CliBackend::new(OpenCode, config)
}

/// Reads what a run printed.
#[must_use]
pub fn transcript(conversation: Conversation) -> Transcript {
    Transcript::new(AgentKind::known(KIND), lines::Lines::new(conversation))
}

struct OpenCode;

impl CliAgent for OpenCode {
    fn kind(&self) -> AgentKind {
        AgentKind::known(KIND)
    }

    fn program(&self) -> &'static str {
        "opencode"
    }

    fn variables(&self) -> &[&str] {
        &["OPENCODE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
    }

    fn capabilities(&self) -> Vec<String> {
        [
            capability::EVENTS_LIVE,
            capability::MODEL,
            capability::FINAL_TEXT,
            capability::SESSION_HANDLE,
            capability::SESSION_RESUME,
            capability::SESSION_FORK,
        ]
        .map(Into::into)
        .into()
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError> {
        if !scene.has(Grant::Shell) {
            return Err(cannot_be_held("opencode has a shell, which was not granted"));
        }
        let prompt = Prompt::Whole(scene.prompt.into());
        Ok(Plan {
            env: [("OPENCODE_DISABLE_AUTOUPDATE".into(), "true".into())].into(),
            walls: [("OPENCODE_CONFIG_CONTENT".into(), permissions(scene).to_string())].into(),
            ..Plan::live(arguments(scene), prompt, transcript(scene.conversation()))
        })
    }
}

fn arguments(scene: &Scene<'_>) -> Vec<String> {
    let mut list: Vec<String> = args!["run", "--format", "json"].into();
    if let Some(model) = &scene.options.model {
        list.extend(args!["--model", model]);
    }
    if let Some(id) = scene.continues() {
        list.extend(args!["--session", id]);
    }
    if matches!(scene.origin, Origin::Fork(_)) {
        list.push("--fork".into());
    }
    list
}

/// A rule for every tool. A question, where one is allowed at all, is answered with no by the program itself.
fn permissions(scene: &Scene<'_>) -> serde_json::Value {
    let otherwise = if scene.options.non_interactive { "deny" } else { "ask" };
    let rule = |grant: Grant| if scene.has(grant) { "allow" } else { otherwise };
    let read = rule(Grant::ReadFiles);
    json!({
        "permission": {
            "*": otherwise,
            "read": read,
            "glob": read,
            "grep": read,
            "list": read,
            "edit": rule(Grant::WriteFiles),
            "webfetch": rule(Grant::FetchWeb),
            "bash": rule(Grant::Shell),
        }
    })
}

#[cfg(test)]
mod tests;
