//! Gemini CLI: `gemini -o stream-json`.

mod lines;

use serde_json::json;

use crate::capability;
use crate::cli::{CliAgent, CliBackend, Plan, Scene};
use crate::config::CliConfig;
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::process::supervise::Prompt;
use crate::transcript::{Conversation, Transcript};

use super::args;

/// The id of this backend.
pub const KIND: &str = "gemini_cli";

/// A backend that starts `gemini`.
#[must_use]
pub fn backend(config: CliConfig) -> CliBackend {
    CliBackend::new(GeminiCli, config)
}

/// Reads what a run printed.
#[must_use]
pub fn transcript(conversation: Conversation) -> Transcript {
    Transcript::new(AgentKind::known(KIND), lines::Lines::new(conversation))
}

struct GeminiCli;

/// Rules that win over those of the user and of the folder.
const POLICY: &str = "gemini-policy.toml";
/// Where the machine's own settings are looked for. Rules beside them would win over ours, so there is nothing.
const NO_SETTINGS: &str = "gemini-system/settings.json";

impl CliAgent for GeminiCli {
    fn kind(&self) -> AgentKind {
        AgentKind::known(KIND)
    }

    fn program(&self) -> &'static str {
        "gemini"
    }

    fn variables(&self) -> &[&str] {
        &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"]
    }

    fn capabilities(&self) -> Vec<String> {
        [
            capability::EVENTS_LIVE,
            capability::MODEL,
            capability::FINAL_TEXT,
            capability::SESSION_HANDLE,
            capability::SESSION_RESUME,
            capability::ADD_DIRS,
            "backend.gemini_cli.session.new_id.v1",
        ]
        .map(Into::into)
        .into()
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError> {
        let nowhere = (scene.files)(NO_SETTINGS).to_string_lossy().into_owned();
        let prompt = Prompt::Whole(scene.prompt.into());
        Ok(Plan {
            walls: [("GEMINI_CLI_SYSTEM_SETTINGS_PATH".into(), nowhere)].into(),
            files: vec![(POLICY, policy(scene).into_bytes())],
            home_files: login(scene),
            ..Plan::live(arguments(scene), prompt, transcript(scene.conversation()))
        })
    }

    fn tools(&self, grant: Grant) -> Option<&'static [&'static str]> {
        Some(tools(grant))
    }
}

fn arguments(scene: &Scene<'_>) -> Vec<String> {
    let options = scene.options;
    let mode = approval_mode(scene);
    let mut list: Vec<String> =
        args!["-o", "stream-json", "--skip-trust", "--approval-mode", mode].into();
    list.extend(args!["--admin-policy", (scene.files)(POLICY).to_string_lossy()]);
    if let Some(model) = &options.model {
        list.extend(args!["--model", model]);
    }
    for dir in &options.add_dirs {
        list.extend(args!["--include-directories", dir.to_string_lossy()]);
    }
    if let Some(id) = scene.continues() {
        list.extend(args!["--resume", id]);
    }
    if let Some(id) = &options.new_session_id {
        list.extend(args!["--session-id", id]);
    }
    list
}

/// What needs no question. The policy denies every tool that was not granted, so no mode reaches further.
fn approval_mode(scene: &Scene<'_>) -> &'static str {
    if !scene.options.non_interactive {
        "default"
    } else if scene.has(Grant::Shell) || scene.has(Grant::FetchWeb) {
        "yolo"
    } else if scene.has(Grant::WriteFiles) {
        "auto_edit"
    } else {
        "default"
    }
}

fn tools(grant: Grant) -> &'static [&'static str] {
    match grant {
        Grant::ReadFiles => &[
            "list_directory",
            "read_file",
            "read_many_files",
            "glob",
            "grep_search",
            "search_file_content",
        ],
        Grant::WriteFiles => &["write_file", "replace"],
        Grant::FetchWeb => &["web_fetch"],
        Grant::Shell => &["run_shell_command"],
    }
}

/// Nothing but what was granted, whatever mode, user or folder say. Settings are no wall: Gemini passes over those
/// that do not belong to root.
fn policy(scene: &Scene<'_>) -> String {
    let granted: Vec<&str> = scene.grants.iter().flat_map(|grant| tools(*grant)).copied().collect();
    let mut policy = "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 1\n".to_owned();
    if !granted.is_empty() {
        let names = serde_json::Value::from(granted);
        policy.push_str(&format!(
            "\n[[rule]]\ntoolName = {names}\ndecision = \"allow\"\npriority = 900\n"
        ));
    }
    policy
}

/// With a custom address, Gemini must be configured to use the key.
fn login(scene: &Scene<'_>) -> Vec<(&'static str, Vec<u8>)> {
    if !(scene.has_variable)("GEMINI_API_KEY") {
        return Vec::new();
    }
    let settings = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
    vec![(".gemini/settings.json", settings.to_string().into_bytes())]
}

#[cfg(test)]
mod tests;
