//! Command lines of aider.

use super::*;
use crate::cli::rehearsal::{line, rehearse};
use crate::options::RunOptions;

const NEEDED: &[Grant] = &[Grant::ReadFiles, Grant::WriteFiles, Grant::Shell];

// T17
#[test]
fn it_says_yes_by_itself_and_takes_its_prompt_from_a_file() {
    let asked = RunOptions { model: Some("m".into()), ..RunOptions::default() };
    let plan = rehearse(&Aider, &asked, NEEDED).unwrap();
    assert_eq!(plan.files, [("prompt.txt", b"do it".to_vec())]);
    assert_eq!(
        plan.args.join(" "),
        "--message-file /scratch/prompt.txt --no-pretty --no-stream --no-git --no-check-update \
         --no-show-model-warnings --no-suggest-shell-commands --analytics-disable --yes-always --no-detect-urls --model m"
    );
    let asks = RunOptions { non_interactive: false, ..RunOptions::default() };
    assert!(!line(&Aider, &asks, NEEDED).contains("--yes-always"));
    assert!(!line(&Aider, &asked, &Grant::ALL).contains("--no-detect-urls"));
}

#[test]
fn it_is_refused_unless_everything_that_it_does_was_granted() {
    for missing in NEEDED {
        let grants: Vec<Grant> = NEEDED.iter().copied().filter(|grant| grant != missing).collect();
        let refused = rehearse(&Aider, &RunOptions::default(), &grants);
        assert!(matches!(refused, Err(AgentError::InvalidRequest { .. })), "{missing:?}");
    }
}
