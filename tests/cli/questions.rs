//! Answering what runs ask, at the command line.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::terminal::Terminal;

/// The lines of standard input answer, one for each question.
#[test]
fn lines_of_standard_input_answer_a_followed_run() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    for (name, workflow, input) in [
        ("accept", "release", "accept\n"),
        ("reject", "release", "\nreject\n"),
        ("reject_with_reason", "release", r#"{"action": "reject", "feedback": "too early"}"#),
        ("second_line_fits", "release", "maybe\n7\naccept\n"),
        ("text", "colour", "dark blue\n"),
        ("json_for_a_question", "colour", r#"{"answers": {"q1": "red"}}"#),
        ("json_for_a_form", "form", "{}\n{\"pieces\": 3}\n"),
    ] {
        let shown = user.run_with(input, &["run", workflow, "--follow"])?;
        assert_snapshot!(format!("answer_{name}"), shown);
    }
    let lines = user.run_with("accept\n", &["run", "release", "--follow", "--json"])?;
    ensure!(lines.contains("\"approval.received\"") && lines.starts_with("exit: 0\n"), "{lines}");
    Ok(())
}

/// Whoever has no answer is told how to give one, and sees the run go on once somebody did.
#[test]
fn without_an_answer_the_watcher_says_how_to_give_one() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let mut follower = user.command(&["run", "release", "--follow"]);
    let mut follower =
        follower.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(follower.stderr.take().context("no standard error")?).lines();
    let waits = said.next().context("nothing was said")??;
    assert_eq!(waits, "gate waits: Ship it?");
    let hint = said.next().context("no hint")??;
    let run = hint.split_whitespace().nth(4).context("no run in the hint")?;
    assert_eq!(
        hint,
        format!("hint: `callboard inbox answer {run} gate --action ACTION` answers it")
    );
    user.output(&["inbox", "answer", run, "gate", "--action", "accept"])?;
    let ended = follower.wait_with_output()?;
    let shown = String::from_utf8(ended.stdout)?;
    assert_eq!(ended.status.code(), Some(0), "{shown}");
    assert!(shown.contains("✓ ship"), "{shown}");
    Ok(())
}

/// A supervisor that is not sure of its decision, and somebody who sees how sure it is of what.
#[test]
fn an_unsure_decision_is_shown_and_can_be_edited() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let node = |id: &str, kind: &str, config: Value| {
        json!({ "id": id, "typeId": kind, "name": id,
        "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} })
    };
    let unsure = json!({ "kind": "next-worker", "nextWorkerIds": ["failing"], "confidence": 0.3 });
    let boss = json!({ "mockDispatchPlan": [unsure], "agentId": "acme.boss" });
    let definition = json!({
        "id": "orchestra", "name": "orchestra", "version": "1.0",
        "nodes": [
            node("boss", "core.orchestrator.supervisor", boss),
            node("work", "core.dispatch", json!({})),
        ],
        "edges": [{ "id": "e", "sourceNodeId": "boss", "targetNodeId": "work" }],
        "triggers": [{ "id": "manual", "type": "manual" }], "variables": [], "metadata": {},
        "settings": {},
    });
    terminal.write("orchestra.json", &definition.to_string())?;
    user.output(&["workflows", "apply", "orchestra.json"])?;
    let started: Value = serde_json::from_str(&user.output(&["run", "orchestra", "--json"])?)?;
    let run = started["runId"].as_str().context("no run")?;
    user.wait_for_question(run)?;
    assert_snapshot!("unsure_1_listed", user.run(&["inbox", "list"])?);
    let edit = r#"{"kind": "next-worker", "nextWorkerIds": ["noop"]}"#;
    assert_snapshot!(
        "unsure_2_nonsense",
        user.run(&["inbox", "answer", run, "--edit", r#"{"kind": "dance"}"#])?
    );
    assert_snapshot!("unsure_3_edited", user.run(&["inbox", "answer", run, "--edit", edit])?);
    let followed = user.run_with("accept\n", &["run", "orchestra", "--follow"])?;
    assert_snapshot!("unsure_4_accepted", followed);
    Ok(())
}

/// A key that may start and watch runs, but not answer, still watches.
#[test]
fn a_key_that_may_not_answer_can_watch() -> Result<()> {
    let terminal = Terminal::new()?;
    let host =
        terminal.host(&["--api-key", "watcher=default+runs:create+runs:read+manifest:read"])?;
    let user = terminal.at(host.url());
    let mut follower = user.command(&["run", "release", "--follow", "--api-key", "watcher"]);
    let mut follower =
        follower.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(follower.stderr.take().context("no standard error")?).lines();
    let refused = said.next().context("nothing was said")??;
    assert!(refused.contains("approvals:respond"), "{refused}");
    let open: Value = serde_json::from_str(&user.output(&["inbox", "list", "--json"])?)?;
    let run = open["interrupts"][0]["runId"].as_str().context("no run")?;
    user.output(&["inbox", "answer", run, "--action", "accept"])?;
    assert_eq!(follower.wait()?.code(), Some(0));
    Ok(())
}

#[test]
fn an_inbox_is_listed_and_answered() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    assert_snapshot!("inbox_1_empty", user.run(&["inbox", "list"])?);
    let start = |workflow: &str| -> Result<String> {
        let run = user.output(&["run", workflow])?.trim().to_owned();
        user.wait_for_question(&run)?;
        Ok(run)
    };
    let (release, colour, form) = (start("release")?, start("colour")?, start("form")?);
    assert_snapshot!("inbox_2_list", user.run(&["inbox", "list"])?);
    assert_snapshot!("inbox_3_kind", user.run(&["inbox", "list", "--kind", "approval", "--json"])?);
    assert_snapshot!(
        "inbox_4_no_such_action",
        user.run(&["inbox", "answer", &release, "--action", "maybe"])?
    );
    assert_snapshot!("inbox_5_no_answer", user.run(&["inbox", "answer", &release])?);
    assert_snapshot!(
        "inbox_6_accept",
        user.run(&["inbox", "answer", &release, "gate", "--action", "accept"])?
    );
    assert_snapshot!(
        "inbox_7_twice",
        user.run(&["inbox", "answer", &release, "gate", "--action", "accept"])?
    );
    assert_snapshot!(
        "inbox_8_unknown_run",
        user.run(&["inbox", "answer", "run_nope", "--action", "accept"])?
    );
    assert_snapshot!("inbox_9_line", user.run_with("blue\n", &["inbox", "answer", &colour])?);
    assert_snapshot!(
        "inbox_10_value",
        user.run(&["inbox", "answer", &form, "fill", "--value", "{\"pieces\": 3}", "--json"])?
    );
    assert_snapshot!("inbox_11_links", user.run(&["keys", "rotate-links"])?);
    assert_snapshot!("inbox_1_empty", user.run(&["inbox", "list"])?);
    Ok(())
}
