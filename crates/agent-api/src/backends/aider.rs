//! Aider: text for people, read once it is over.

mod lines;

use crate::capability;
use crate::cli::{CliAgent, CliBackend, Plan, Scene};
use crate::config::CliConfig;
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::process::supervise::{Delivery, Prompt};
use crate::transcript::Transcript;

use super::{args, cannot_be_held};

/// The id of this backend.
pub const KIND: &str = "aider";

/// A backend that starts `aider`. It needs [`Grant::ReadFiles`], [`Grant::WriteFiles`] and [`Grant::Shell`], for
/// it has no option to disable any of them. Its events come after its exit, without a final text.
#[must_use]
pub fn backend(config: CliConfig) -> CliBackend {
    CliBackend::new(Aider, config)
}

/// Reads what a run printed.
#[must_use]
pub fn transcript() -> Transcript {
    Transcript::new(AgentKind::known(KIND), lines::Lines::default())
}

struct Aider;

/// The prompt; aider reads none from its input.
const PROMPT: &str = "prompt.txt";

impl CliAgent for Aider {
    fn kind(&self) -> AgentKind {
        AgentKind::known(KIND)
    }

    fn program(&self) -> &'static str {
        "aider"
    }

    fn variables(&self) -> &[&str] {
        &["OPENAI_API_KEY", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
    }

    fn capabilities(&self) -> Vec<String> {
        vec![capability::MODEL.into()]
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError> {
        let needed = [Grant::ReadFiles, Grant::WriteFiles, Grant::Shell];
        if !needed.iter().all(|grant| scene.has(*grant)) {
            return Err(cannot_be_held("aider reads, writes and runs what it likes"));
        }
        Ok(Plan {
            files: vec![(PROMPT, scene.prompt.into())],
            delivery: Delivery::AfterExit,
            ..Plan::live(arguments(scene), Prompt::Elsewhere, transcript())
        })
    }
}

fn arguments(scene: &Scene<'_>) -> Vec<String> {
    let prompt = (scene.files)(PROMPT);
    let mut list: Vec<String> = args![
        "--message-file",
        prompt.to_string_lossy(),
        "--no-pretty",
        "--no-stream",
        "--no-git",
        "--no-check-update",
        "--no-show-model-warnings",
        "--no-suggest-shell-commands",
        "--analytics-disable",
    ]
    .into();
    if scene.options.non_interactive {
        list.push("--yes-always".into());
    }
    if !scene.has(Grant::FetchWeb) {
        // It reads every page whose address stands in a prompt.
        list.push("--no-detect-urls".into());
    }
    if let Some(model) = &scene.options.model {
        list.extend(args!["--model", model]);
    }
    list
}

#[cfg(test)]
mod tests;
