//! `callboard db` about the database of a data folder.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::terminal::Terminal;

fn status(terminal: &Terminal) -> Result<Value> {
    let output = terminal.command(&["db", "status", "--data", "data", "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Also beside the host that serves from it.
#[test]
fn a_folder_is_counted_while_its_host_serves() -> Result<()> {
    let terminal = Terminal::new()?;
    let none = status(&terminal)?;
    ensure!(none["schema"].is_null() && none["bytes"] == 0, "{none}");
    ensure!(!terminal.folder().join("data").exists(), "looking made a folder");

    let host = terminal.host(&[])?;
    let ended = terminal.at(host.url()).command(&["run", "noop", "--follow"]).status()?;
    ensure!(ended.success());
    let found = status(&terminal)?;
    ensure!(found["schema"] == found["knownSchema"], "{found}");
    ensure!(found["tables"]["runs"] == 1 && found["runs"]["completed"] == 1, "{found}");
    ensure!(found["tables"]["events"].as_u64() > Some(2), "{found}");
    Ok(())
}

#[test]
fn the_bytes_of_a_folder_are_told_by_table() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let ended = terminal.at(host.url()).command(&["run", "noop", "--follow"]).status()?;
    ensure!(ended.success());
    let output = terminal.command(&["db", "stats", "--data", "data", "--json"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stats: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(stats["tables"]["events"].as_u64() > Some(0), "{stats}");
    ensure!(stats["diskFreeBytes"].as_u64() > Some(0), "{stats}");
    let nothing = terminal.run(&["db", "stats", "--data", "nothing"])?;
    ensure!(nothing.starts_with("exit: 1\n"), "{nothing}");
    Ok(())
}
