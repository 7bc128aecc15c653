//! `callboard memory` as its user sees it.

use anyhow::{Context, Result, ensure};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::terminal::Terminal;

fn remembering(content: &str) -> String {
    let node = json!({
        "id": "note", "typeId": "core.identity", "name": "note", "position": { "x": 0, "y": 0 },
        "config": { "memoryAction": "write", "memoryRef": "desk/notes", "content": content, "tags": ["tea"] },
        "inputs": {},
    });
    json!({
        "id": "remember", "name": "remember", "version": "1.0", "nodes": [node], "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
    .to_string()
}

/// Ids are digests of run ids, so a snapshot cannot hold them.
fn without(shown: &str, id: &str) -> String {
    shown.replace(id, "mem_1")
}

#[test]
fn an_entry_is_found_read_restored_and_forgotten() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--api-key", "reader=default+runs:read"])?;
    let user = terminal.at(host.url());
    assert_snapshot!("memory_1_nothing", user.run(&["memory", "list"])?);
    for content in ["the invoice is paid", "tea is cold"] {
        terminal.write("remember.json", &remembering(content))?;
        user.output(&["workflows", "apply", "remember.json"])?;
        user.output(&["run", "remember", "--follow"])?;
    }
    let listed = user.output(&["memory", "list", "--text", "cold", "--json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    let entry = &listed["entries"][0];
    ensure!(entry["content"] == "tea is cold", "{listed}");
    let id = entry["id"].as_str().context("no id")?;

    let shown = user.output(&["memory", "list", "--scope", "desk/notes"])?;
    ensure!(shown.lines().count() == 3 && shown.contains("the invoice is paid"), "{shown}");
    let shown = user.output(&["memory", "get", id])?;
    ensure!(shown.contains("kept in") && shown.ends_with("tea is cold\n"), "{shown}");
    let restore = |name: &str, arguments: &[&str]| -> Result<()> {
        let shown = user.run(&[&["memory", "restore", id], arguments].concat())?;
        assert_snapshot!(name, without(&shown, id));
        Ok(())
    };
    restore("memory_2_restored", &["--version", "1", "--expected", "1"])?;
    restore("memory_3_moved", &["--version", "1", "--expected", "1"])?;
    restore("memory_4_no_version", &["--version", "7"])?;
    let edit = |expected: &str| {
        user.run(&["memory", "edit", id, "--expected", expected, "--content", "tea is hot"])
    };
    ensure!(edit("1")?.contains("somebody changed the entry"), "version 1 is not the newest");
    ensure!(edit("2")?.contains("is version 3 now"), "the newest is written over");
    let shown = user.output(&["memory", "history", id])?;
    ensure!(shown.lines().count() == 4 && shown.contains("at note"), "{shown}");
    let shown = user.run(&["memory", "forget", id, "--api-key", "reader"])?;
    assert_snapshot!("memory_5_not_allowed", without(&shown, id));
    assert_snapshot!("memory_6_forgotten", without(&user.run(&["memory", "forget", id])?, id));
    assert_snapshot!("memory_7_gone", without(&user.run(&["memory", "get", id])?, id));
    let listed = user.output(&["memory", "list", "--json"])?;
    ensure!(!listed.contains("tea is") && listed.contains("the invoice is paid"), "{listed}");
    Ok(())
}

/// What was put together says from what, and what it was made from can be brought back.
#[test]
fn what_was_put_together_says_from_what() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    for content in ["the invoice is paid", "tea is cold"] {
        terminal.write("remember.json", &remembering(content))?;
        user.output(&["workflows", "apply", "remember.json"])?;
        user.output(&["run", "remember", "--follow"])?;
    }
    let tidy = remembering("")
        .replace("\"write\"", "\"compact\"")
        .replace("\"tags\"", "\"keep\":0,\"tags\"");
    terminal.write("tidy.json", &tidy.replace("\"remember\"", "\"tidy\""))?;
    user.output(&["workflows", "apply", "tidy.json"])?;
    user.output(&["run", "tidy", "--follow"])?;
    let listed: Value = serde_json::from_str(&user.output(&["memory", "list", "--json"])?)?;
    let entries = listed["entries"].as_array().context("no list")?;
    ensure!(entries.len() == 1, "{listed}");
    let shown = user.output(&["memory", "get", entries[0]["id"].as_str().context("no id")?])?;
    let source = entries[0]["sources"][0].as_str().context("no source")?;
    ensure!(shown.contains("made from") && shown.contains(source), "{shown}");
    ensure!(shown.contains("compacted-from:run_"), "{shown}");
    user.output(&["memory", "restore", source, "--version", "1"])?;
    let found = user.output(&["memory", "list", "--text", "invoice", "--json"])?;
    let found: Value = serde_json::from_str(&found)?;
    ensure!(found["entries"].as_array().is_some_and(|all| all.len() == 2), "{found}");
    Ok(())
}
