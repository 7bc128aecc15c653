//! Claude Code: `claude --print`.

mod lines;

use std::path::PathBuf;

use crate::capability;
use crate::cli::{CliAgent, CliBackend, McpCommand, Plan, Scene};
use crate::config::CliConfig;
use crate::error::AgentError;
use crate::grant::Grant;
use crate::kind::AgentKind;
use crate::mcp::Transport;
use crate::options::{Origin, RunOptions};
use crate::process::supervise::Prompt;
use crate::transcript::{Conversation, Transcript};

use super::args;

/// The id of this backend.
pub const KIND: &str = "claude_code";

/// A backend that starts `claude`.
#[must_use]
pub fn backend(config: CliConfig) -> CliBackend {
    CliBackend::new(ClaudeCode, config)
}

/// Reads what a run printed.
#[must_use]
pub fn transcript(conversation: Conversation) -> Transcript {
    Transcript::new(AgentKind::known(KIND), lines::Lines::new(conversation))
}

struct ClaudeCode;

const ALLOW_SKIPPING: &str = "--allow-dangerously-skip-permissions";

impl CliAgent for ClaudeCode {
    fn kind(&self) -> AgentKind {
        AgentKind::known(KIND)
    }

    fn program(&self) -> &'static str {
        "claude"
    }

    fn variables(&self) -> &[&str] {
        &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_MAX_RETRIES",
        ]
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
            "backend.claude_code.print_stream_json",
            "backend.claude_code.session.new_id.v1",
        ]
        .map(Into::into)
        .into()
    }

    fn offers_external_sandbox(&self) -> bool {
        true
    }

    fn needs_help(&self, options: &RunOptions) -> bool {
        options.external_sandbox
    }

    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, AgentError> {
        let prompt = Prompt::Whole(scene.prompt.into());
        Ok(Plan {
            env: [("DISABLE_AUTOUPDATER".into(), "1".into())].into(),
            ..Plan::live(arguments(scene), prompt, transcript(scene.conversation()))
        })
    }

    fn tools(&self, grant: Grant) -> Option<&'static [&'static str]> {
        Some(tools(grant))
    }

    fn mcp(&self, command: McpCommand) -> Option<Result<Vec<String>, AgentError>> {
        Some(mcp(command))
    }
}

fn arguments(scene: &Scene<'_>) -> Vec<String> {
    let options = scene.options;
    let mut list: Vec<String> = args![
        "--print",
        "--output-format",
        "stream-json",
        // Without it the format is refused.
        "--verbose",
        "--include-partial-messages",
    ]
    .into();
    if let Some(model) = &options.model {
        list.extend(args!["--model", model]);
    }
    if options.external_sandbox {
        list.push("--dangerously-skip-permissions".into());
        if scene.help.contains(ALLOW_SKIPPING) {
            list.push(ALLOW_SKIPPING.into());
        }
    } else {
        list.extend(permissions(scene));
    }
    if !options.add_dirs.is_empty() {
        list.push("--add-dir".into());
        list.extend(options.add_dirs.iter().map(|dir| dir.to_string_lossy().into_owned()));
    }
    match &scene.origin {
        Origin::Fork(_) => list.push("--fork-session".into()),
        Origin::New | Origin::Resume(_) => {}
    }
    if let Some(id) = scene.continues() {
        list.extend(args!["--resume", id]);
    }
    if let Some(id) = &options.new_session_id {
        list.extend(args!["--session-id", id]);
    }
    list
}

/// The tools that exist for the model, and the same as those that need no question. Nobody is asked: what is
/// not on the list is denied.
fn permissions(scene: &Scene<'_>) -> Vec<String> {
    let tools: Vec<&str> = scene.grants.iter().flat_map(|grant| tools(*grant)).copied().collect();
    let tools = tools.join(",");
    let mode = if scene.options.non_interactive { "dontAsk" } else { "default" };
    let mut list: Vec<String> = args!["--permission-mode", mode, "--tools", &tools].into();
    if !tools.is_empty() {
        list.extend(args!["--allowedTools", tools]);
        list.extend(denials(scene.hidden));
    }
    list
}

/// A rule for reading holds searching to it as well. Two slashes begin a path that is not the project's own.
fn denials(hidden: &[PathBuf]) -> Vec<String> {
    let paths = hidden.iter().filter_map(|path| path.to_str());
    // What separates rules cannot stand in one.
    let paths = paths.filter(|path| path.starts_with('/') && !path.contains([' ', ',', '(', ')']));
    let rules = paths.flat_map(|path| {
        let inside = ["", "/**"].into_iter();
        inside.flat_map(move |end| ["Read", "Edit"].map(|rule| format!("{rule}(/{path}{end})")))
    });
    let rules: Vec<String> = rules.collect();
    if rules.is_empty() { rules } else { args!["--disallowedTools", rules.join(",")].into() }
}

fn tools(grant: Grant) -> &'static [&'static str] {
    match grant {
        Grant::ReadFiles => &["Read", "Glob", "Grep"],
        Grant::WriteFiles => &["Edit", "Write"],
        Grant::FetchWeb => &["WebFetch"],
        Grant::Shell => &["Bash"],
    }
}

fn mcp(command: McpCommand) -> Result<Vec<String>, AgentError> {
    Ok(match command {
        McpCommand::List => args!["mcp", "list"].into(),
        McpCommand::Get(name) => args!["mcp", "get", name].into(),
        McpCommand::Remove(name) => args!["mcp", "remove", name].into(),
        McpCommand::Add(name, Transport::Stdio { argv, env }) => {
            let mut list: Vec<String> = args!["mcp", "add", "--transport", "stdio", name].into();
            // After the name: the option takes every word that follows it.
            for (variable, value) in env {
                list.extend(args!["-e", format!("{variable}={value}")]);
            }
            list.push("--".into());
            list.extend(argv);
            list
        }
        McpCommand::Add(name, Transport::Url { url, bearer_token_env_var: None }) => {
            args!["mcp", "add", "--transport", "http", name, url].into()
        }
        McpCommand::Add(_, Transport::Url { .. }) => {
            return Err(AgentError::invalid("claude takes no variable for a bearer token"));
        }
    })
}

#[cfg(test)]
mod tests;
