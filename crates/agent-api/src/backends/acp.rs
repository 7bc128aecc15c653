//! Any agent that speaks the Agent Client Protocol on its standard streams.

mod dialogue;

use crate::capability;
use crate::cli::{CliAgent, CliBackend, Plan, Scene};
use crate::config::CliConfig;
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::options::Origin;
use crate::process::supervise::Prompt;
use crate::transcript::Transcript;

use super::cannot_be_held;
use dialogue::Dialogue;

/// How an agent is started so that it speaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpProgram {
    /// The id that the backend gets.
    pub kind: AgentKind,
    pub program: String,
    pub args: Vec<String>,
    /// Variables of the host that the agent may see.
    pub variables: Vec<&'static str>,
}

impl AcpProgram {
    /// `gemini --acp`, as `gemini_acp`.
    #[must_use]
    pub fn gemini() -> Self {
        Self {
            kind: AgentKind::known("gemini_acp"),
            program: "gemini".into(),
            args: vec!["--acp".into()],
            variables: vec!["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"],
        }
    }

    /// `opencode acp`, as `opencode_acp`.
    #[must_use]
    pub fn opencode() -> Self {
        Self {
            kind: AgentKind::known("opencode_acp"),
            program: "opencode".into(),
            args: vec!["acp".into()],
            variables: vec!["OPENCODE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"],
        }
    }
}

/// A backend that starts `program`. It needs [`Grant::Shell`]: agents run commands without asking.
#[must_use]
pub fn backend(program: AcpProgram, config: CliConfig) -> CliBackend {
    CliBackend::new(Acp { program }, config)
}

/// Reads what an agent of this kind printed in a new session.
#[must_use]
pub fn transcript(kind: AgentKind) -> Transcript {
    let dialogue = Dialogue::new(String::new(), "/".into(), Origin::New, [].into());
    Transcript::new(kind, dialogue)
}

struct Acp {
    program: AcpProgram,
}

impl CliAgent for Acp {
    fn kind(&self) -> AgentKind {
        self.program.kind.clone()
    }

    fn program(&self) -> &str {
        &self.program.program
    }

    fn variables(&self) -> &[&str] {
        &self.program.variables
    }

    fn capabilities(&self) -> Vec<String> {
        [
            capability::EVENTS_LIVE,
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
            return Err(cannot_be_held("the agent may run commands without asking"));
        }
        let opening = format!("{}\n", Dialogue::opening());
        let mut dialogue = Dialogue::new(
            scene.prompt.into(),
            scene.working_dir.to_string_lossy().into_owned(),
            scene.origin.clone(),
            scene.grants.clone(),
        );
        dialogue.is_attended = scene.is_attended;
        let prompt = Prompt::Opening(opening.into_bytes());
        let transcript = Transcript::new(self.kind(), dialogue);
        Ok(Plan::live(self.program.args.clone(), prompt, transcript))
    }
}

#[cfg(test)]
mod tests;
