//! Command lines of Codex.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::cli::rehearsal::{fork, line, line_with_hidden, rehearse, resume};
use crate::options::RunOptions;

const EXEC: &str = "exec --color never --skip-git-repo-check --json";
const SHELL: &[Grant] = &[Grant::Shell];
const WRITES: &[Grant] = &[Grant::Shell, Grant::WriteFiles];

fn private(name: &str, value: &str) -> RunOptions {
    RunOptions { private: [(name.into(), value.into())].into(), ..RunOptions::default() }
}

// T17
#[test]
fn nobody_is_asked_and_the_sandbox_follows_the_grants() {
    let line = |grants| line(&Codex, &RunOptions::default(), grants);
    assert_eq!(line(SHELL), format!("--ask-for-approval never --sandbox read-only {EXEC} -"));
    assert_eq!(
        line(WRITES),
        format!("--ask-for-approval never --sandbox workspace-write {EXEC} -")
    );
}

#[test]
fn what_is_hidden_is_denied_by_a_profile_in_place_of_the_sandbox_mode() {
    let hidden = ["/data", "no/path", "/with \"quotes\""].map(PathBuf::from);
    let line = |grants| line_with_hidden(&Codex, grants, &hidden);
    let profile = |base: &str| {
        format!(
            "-c default_permissions=\"callboard\" -c permissions.callboard={{extends=\"{base}\",\
             filesystem={{\"/data\"=\"deny\",\"/with \\\"quotes\\\"\"=\"deny\"}},network={{enabled=false}}}}"
        )
    };
    let never = "--ask-for-approval never";
    assert_eq!(line(SHELL), format!("{never} {} {EXEC} -", profile(":read-only")));
    assert_eq!(line(WRITES), format!("{never} {} {EXEC} -", profile(":workspace")));
}

#[test]
fn without_a_shell_it_is_refused_with_the_reason() {
    for grants in [&[][..], &[Grant::ReadFiles, Grant::WriteFiles]] {
        match rehearse(&Codex, &RunOptions::default(), grants) {
            Err(AgentError::InvalidRequest { message }) => assert!(message.contains("shell")),
            other => panic!("{:?}", other.map(|plan| plan.args)),
        }
    }
}

#[test]
fn a_sandbox_beyond_the_grants_is_refused() {
    assert!(rehearse(&Codex, &private("exec.sandbox_mode", "workspace-write"), SHELL).is_err());
    assert!(rehearse(&Codex, &private("exec.sandbox_mode", "danger-full-access"), WRITES).is_err());
    assert!(rehearse(&Codex, &private("exec.sandbox_mode", "none"), WRITES).is_err());
    let narrower = line(&Codex, &private("exec.sandbox_mode", "read-only"), WRITES);
    assert!(narrower.contains("--sandbox read-only"));
    let all = line(&Codex, &private("exec.sandbox_mode", "danger-full-access"), &Grant::ALL);
    assert!(all.contains("--sandbox danger-full-access"));
}

#[test]
fn an_approval_that_asks_contradicts_nobody_being_there() {
    assert!(rehearse(&Codex, &private("exec.approval_policy", "on-request"), SHELL).is_err());
    assert!(rehearse(&Codex, &private("exec.approval_policy", "sometimes"), SHELL).is_err());
    let asks =
        RunOptions { non_interactive: false, ..private("exec.approval_policy", "untrusted") };
    assert!(line(&Codex, &asks, SHELL).starts_with("--ask-for-approval untrusted "));
}

// T16
#[test]
fn an_external_sandbox_is_one_option_alone() {
    let asked = RunOptions { external_sandbox: true, ..RunOptions::default() };
    assert_eq!(
        line(&Codex, &asked, &[]),
        format!("--dangerously-bypass-approvals-and-sandbox {EXEC} -")
    );
}

// T50
#[test]
fn resuming_keeps_model_and_folders() {
    let asked = RunOptions {
        model: Some("m".into()),
        add_dirs: vec!["/a".into(), "/b".into()],
        ..resume("t-1")
    };
    assert_eq!(
        line(&Codex, &asked, SHELL),
        format!(
            "--ask-for-approval never --sandbox read-only {EXEC} --model m --add-dir /a --add-dir /b resume t-1 -"
        )
    );
}

// T50
#[test]
fn forking_refuses_what_it_could_not_keep() {
    assert!(line(&Codex, &fork("t-1"), SHELL).ends_with(" --json fork t-1 -"));
    let refusal = |asked: &RunOptions| match rehearse(&Codex, asked, SHELL) {
        Err(AgentError::Backend { message, .. }) => message,
        other => panic!("{:?}", other.map(|plan| plan.args)),
    };
    let model = RunOptions { model: Some("m".into()), ..fork("t-1") };
    assert_eq!(refusal(&model), "model override unsupported for codex fork");
    let dirs = RunOptions { add_dirs: vec!["/a".into()], ..fork("t-1") };
    assert_eq!(refusal(&dirs), "add_dirs unsupported for codex fork");
}

// T61
#[test]
fn servers_are_managed_with_json_where_there_is_some() {
    let line = |command| mcp(command).join(" ");
    assert_eq!(line(McpCommand::List), "mcp list --json");
    assert_eq!(line(McpCommand::Get("n".into())), "mcp get --json n");
    assert_eq!(line(McpCommand::Remove("n".into())), "mcp remove n");
    let stdio = Transport::Stdio {
        argv: vec!["npx".into(), "server".into()],
        env: BTreeMap::from([("K".into(), "v".into())]),
    };
    assert_eq!(line(McpCommand::Add("n".into(), stdio)), "mcp add n --env K=v -- npx server");
    let url =
        Transport::Url { url: "http://h/".into(), bearer_token_env_var: Some("TOKEN".into()) };
    assert_eq!(
        line(McpCommand::Add("n".into(), url)),
        "mcp add n --url http://h/ --bearer-token-env-var TOKEN"
    );
}
