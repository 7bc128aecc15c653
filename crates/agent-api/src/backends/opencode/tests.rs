//! Command lines of OpenCode.

use serde_json::Value;

use super::*;
use crate::cli::rehearsal::{fork, line, rehearse, resume};
use crate::options::RunOptions;

const SHELL: &[Grant] = &[Grant::Shell];

fn rules(options: &RunOptions, grants: &[Grant]) -> Value {
    let plan = rehearse(&OpenCode, options, grants).unwrap();
    let config: Value = serde_json::from_str(&plan.walls["OPENCODE_CONFIG_CONTENT"]).unwrap();
    config["permission"].clone()
}

// T17
#[test]
fn what_was_not_granted_is_denied_without_a_question() {
    let rules_for_shell = rules(&RunOptions::default(), SHELL);
    assert_eq!(rules_for_shell["bash"], "allow");
    for tool in ["*", "edit", "webfetch", "read"] {
        assert_eq!(rules_for_shell[tool], "deny", "{tool}");
    }
    let asks = RunOptions { non_interactive: false, ..RunOptions::default() };
    assert_eq!(rules(&asks, SHELL)["edit"], "ask");
    assert_eq!(rules(&asks, &Grant::ALL)["edit"], "allow");
}

#[test]
fn without_a_shell_it_is_refused_with_the_reason() {
    let refused = rehearse(&OpenCode, &RunOptions::default(), &[Grant::ReadFiles]);
    assert!(
        matches!(refused, Err(AgentError::InvalidRequest { message }) if message.contains("shell"))
    );
}

// T50
#[test]
fn resuming_and_forking_keep_the_model() {
    let asked = RunOptions { model: Some("p/m".into()), ..resume("ses_1") };
    assert_eq!(line(&OpenCode, &asked, SHELL), "run --format json --model p/m --session ses_1");
    let asked = RunOptions { model: Some("p/m".into()), ..fork("ses_1") };
    assert_eq!(
        line(&OpenCode, &asked, SHELL),
        "run --format json --model p/m --session ses_1 --fork"
    );
}
