//! Command lines of Gemini CLI.

use super::*;
use crate::cli::rehearsal::{line, rehearse, resume};
use crate::options::RunOptions;

const START: &str = "-o stream-json --skip-trust --approval-mode";

/// What the policy says, and what is put into the home.
fn policy(grants: &[Grant]) -> (String, Vec<u8>) {
    let mut plan = rehearse(&GeminiCli, &RunOptions::default(), grants).unwrap();
    assert!(plan.walls["GEMINI_CLI_SYSTEM_SETTINGS_PATH"].starts_with("/scratch/"));
    (String::from_utf8(plan.files.remove(0).1).unwrap(), plan.home_files.remove(0).1)
}

fn command(grants: &[Grant], asked: &RunOptions) -> String {
    line(&GeminiCli, asked, grants).replace(" --admin-policy /scratch/gemini-policy.toml", "")
}

// T17
#[test]
fn the_mode_follows_the_grants() {
    let mode = |grants: &[Grant]| command(grants, &RunOptions::default());
    assert_eq!(mode(&[]), format!("{START} default"));
    assert_eq!(mode(&[Grant::ReadFiles]), format!("{START} default"));
    assert_eq!(mode(&[Grant::WriteFiles]), format!("{START} auto_edit"));
    assert_eq!(mode(&[Grant::Shell]), format!("{START} yolo"));
    let asks = RunOptions { non_interactive: false, ..RunOptions::default() };
    assert_eq!(command(&Grant::ALL, &asks), format!("{START} default"));
}

#[test]
fn tools_that_were_not_granted_are_denied() {
    let denied = "[[rule]]\ntoolName = \"*\"\ndecision = \"deny\"\npriority = 1\n";
    let (none, login) = policy(&[]);
    assert_eq!(none, denied);
    assert!(String::from_utf8(login).unwrap().contains("gemini-api-key"));
    let (shell, _) = policy(&[Grant::Shell]);
    let allowed =
        "[[rule]]\ntoolName = [\"run_shell_command\"]\ndecision = \"allow\"\npriority = 900\n";
    assert_eq!(shell, format!("{denied}\n{allowed}"));
    let argv = line(&GeminiCli, &RunOptions::default(), &[]);
    assert!(argv.contains(" --admin-policy /scratch/gemini-policy.toml"), "{argv}");
}

// T50
#[test]
fn resuming_keeps_model_and_folders() {
    let asked = RunOptions {
        model: Some("m".into()),
        add_dirs: vec!["/a".into(), "/b".into()],
        ..resume("u-1")
    };
    assert_eq!(
        command(&[], &asked),
        format!(
            "{START} default --model m --include-directories /a --include-directories /b --resume u-1"
        )
    );
    let named = RunOptions { new_session_id: Some("u-2".into()), ..RunOptions::default() };
    assert_eq!(command(&[], &named), format!("{START} default --session-id u-2"));
}
