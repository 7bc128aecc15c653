//! Command lines of Claude Code.

use std::collections::BTreeMap;

use super::*;
use crate::cli::rehearsal::{fork, line, rehearse, rehearse_with_help, resume};
use crate::options::RunOptions;

const START: &str = "--print --output-format stream-json --verbose --include-partial-messages";

// T17
#[test]
fn nobody_is_asked_and_nothing_is_allowed_by_itself() {
    let plan = rehearse(&ClaudeCode, &RunOptions::default(), &[]).unwrap();
    assert_eq!(plan.args.join(" "), format!("{START} --permission-mode dontAsk --tools "));
    assert_eq!(plan.args.last().unwrap(), "");
    assert!(matches!(plan.prompt, Prompt::Whole(prompt) if prompt == b"do it"));
}

#[test]
fn grants_name_the_tools() {
    for (grant, tools) in [
        (Grant::ReadFiles, "Read,Glob,Grep"),
        (Grant::WriteFiles, "Edit,Write"),
        (Grant::FetchWeb, "WebFetch"),
        (Grant::Shell, "Bash"),
    ] {
        assert_eq!(
            line(&ClaudeCode, &RunOptions::default(), &[grant]),
            format!("{START} --permission-mode dontAsk --tools {tools} --allowedTools {tools}")
        );
    }
}

#[test]
fn what_is_hidden_is_denied_by_its_path() {
    let hidden = ["/data", "no/path", "/with a space"].map(PathBuf::from);
    let rules = "Read(//data),Edit(//data),Read(//data/**),Edit(//data/**)";
    assert_eq!(denials(&hidden), ["--disallowedTools", rules]);
    assert_eq!(denials(&hidden[1..]), [""; 0]);
}

#[test]
fn permissions_are_never_skipped_by_grants() {
    let line = line(&ClaudeCode, &RunOptions::default(), &Grant::ALL);
    assert!(!line.contains("bypass") && !line.contains("dangerously"), "{line}");
}

// T50
#[test]
fn resuming_and_forking_keep_model_and_folders() {
    let asked = RunOptions {
        model: Some("m".into()),
        add_dirs: vec!["/a".into(), "/b".into()],
        ..resume("s-1")
    };
    let middle = "--model m --permission-mode dontAsk --tools  --add-dir /a /b";
    assert_eq!(line(&ClaudeCode, &asked, &[]), format!("{START} {middle} --resume s-1"));
    let asked = RunOptions { origin: fork("s-1").origin, ..asked };
    assert_eq!(
        line(&ClaudeCode, &asked, &[]),
        format!("{START} {middle} --fork-session --resume s-1")
    );
}

#[test]
fn a_new_session_can_be_given_its_id() {
    let asked = RunOptions { new_session_id: Some("u".into()), ..RunOptions::default() };
    assert!(line(&ClaudeCode, &asked, &[]).ends_with(" --session-id u"));
}

// T16
#[test]
fn an_external_sandbox_replaces_the_permissions() {
    let asked = RunOptions { external_sandbox: true, ..RunOptions::default() };
    assert_eq!(line(&ClaudeCode, &asked, &[]), format!("{START} --dangerously-skip-permissions"));
    let helped = rehearse_with_help(&ClaudeCode, &asked, &[], &format!("  {ALLOW_SKIPPING}  x"));
    assert_eq!(helped.unwrap().args.last().unwrap(), ALLOW_SKIPPING);
}

// T61
#[test]
fn servers_are_managed_in_the_order_that_the_program_reads() {
    let line = |command| mcp(command).unwrap().join(" ");
    assert_eq!(line(McpCommand::List), "mcp list");
    assert_eq!(line(McpCommand::Get("n".into())), "mcp get n");
    assert_eq!(line(McpCommand::Remove("n".into())), "mcp remove n");
    let stdio = Transport::Stdio {
        argv: vec!["npx".into(), "server".into()],
        env: BTreeMap::from([("K".into(), "v".into())]),
    };
    assert_eq!(
        line(McpCommand::Add("n".into(), stdio)),
        "mcp add --transport stdio n -e K=v -- npx server"
    );
    let url = |variable: Option<&str>| Transport::Url {
        url: "http://h/".into(),
        bearer_token_env_var: variable.map(Into::into),
    };
    assert_eq!(
        line(McpCommand::Add("n".into(), url(None))),
        "mcp add --transport http n http://h/"
    );
    let refused = mcp(McpCommand::Add("n".into(), url(Some("TOKEN"))));
    assert!(matches!(refused, Err(AgentError::InvalidRequest { .. })));
}
