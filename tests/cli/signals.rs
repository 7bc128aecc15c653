//! What a run is told from a terminal while it waits: through a channel, and turn by turn.

use anyhow::Result;
use insta::assert_snapshot;
use serde_json::json;

use crate::terminal::Terminal;

/// A workflow that talks, with a board for notes beside it.
fn definition() -> String {
    json!({
        "id": "talk", "name": "talk", "version": "1.0",
        "nodes": [{ "id": "convo", "typeId": "core.conversationGate", "name": "Colours",
            "position": { "x": 0, "y": 0 }, "inputs": {},
            "config": { "initialPrompt": "Let us choose a colour.", "prompts": ["Which?", "Sure?"] } }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "channels": { "notes": { "reducer": "append" }, "current": { "reducer": "replace" } },
    })
    .to_string()
}

#[test]
fn a_run_is_signalled_and_talked_to() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    terminal.write("talk.json", &definition())?;
    user.output(&["workflows", "apply", "talk.json"])?;
    let run = user.output(&["run", "talk"])?.trim().to_owned();
    user.wait_for_question(&run)?;
    let signal = |channel: &str, more: &[&str]| {
        user.run(&[&["runs", "signal", &run, channel, "--value", "\"ship it\""], more].concat())
    };
    assert_snapshot!("signal_1_written", signal("notes", &[])?);
    assert_snapshot!("signal_2_json", signal("notes", &["--source-run", "run_x", "--json"])?);
    assert_snapshot!("signal_3_forbidden", signal("current", &[])?);
    assert_snapshot!("signal_4_unknown", signal("nowhere", &[])?);
    assert_snapshot!("talk_1_inbox", user.run(&["inbox", "list"])?);
    assert_snapshot!("talk_2_answer", user.run_with("42\n", &["inbox", "answer", &run])?);
    assert_snapshot!("talk_3_answer", user.run_with("yes\n", &["inbox", "answer", &run])?);
    assert_snapshot!("talk_4_events", user.run(&["runs", "events", &run])?);
    assert_snapshot!("signal_5_too_late", signal("notes", &[])?);
    Ok(())
}
