//! Command lines of Gemini CLI.

use super::*;
use crate::cli::rehearsal::{line, rehearse, resume};
use crate::options::RunOptions;

const START: &str = "-o stream-json --skip-trust --approval-mode";

fn settings(grants: &[Grant]) -> serde_json::Value {
    let plan = rehearse(&GeminiCli, &RunOptions::default(), grants).unwrap();
    assert_eq!(plan.walls["GEMINI_CLI_SYSTEM_SETTINGS_PATH"], "/scratch/gemini-settings.json");
    serde_json::from_slice(&plan.files[0].1).unwrap()
}

// T17
#[test]
fn the_mode_follows_the_grants() {
    let mode = |grants: &[Grant]| line(&GeminiCli, &RunOptions::default(), grants);
    assert_eq!(mode(&[]), format!("{START} default"));
    assert_eq!(mode(&[Grant::ReadFiles]), format!("{START} default"));
    assert_eq!(mode(&[Grant::WriteFiles]), format!("{START} auto_edit"));
    assert_eq!(mode(&[Grant::Shell]), format!("{START} yolo"));
    let asks = RunOptions { non_interactive: false, ..RunOptions::default() };
    assert_eq!(line(&GeminiCli, &asks, &Grant::ALL), format!("{START} default"));
}

#[test]
fn tools_that_were_not_granted_do_not_exist() {
    let none = settings(&[]);
    assert_eq!(none["tools"]["core"], json!([]));
    assert!(none["tools"]["exclude"].as_array().unwrap().contains(&"run_shell_command".into()));
    let shell = settings(&[Grant::Shell]);
    assert_eq!(shell["tools"]["core"], json!(["run_shell_command"]));
    assert!(shell["tools"]["exclude"].as_array().unwrap().contains(&"write_file".into()));
    assert_eq!(shell["security"]["auth"]["selectedType"], "gemini-api-key");
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
        line(&GeminiCli, &asked, &[]),
        format!(
            "{START} default --model m --include-directories /a --include-directories /b --resume u-1"
        )
    );
    let named = RunOptions { new_session_id: Some("u-2".into()), ..RunOptions::default() };
    assert_eq!(line(&GeminiCli, &named, &[]), format!("{START} default --session-id u-2"));
}
