//! `callboard db backup` and `restore` about what they refuse, and what they leave behind then: nothing.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::terminal::Terminal;

/// A folder of a host that has run something, and its backup.
fn backed_up() -> Result<Terminal> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let ended = terminal.at(host.url()).command(&["run", "noop", "--follow"]).status()?;
    ensure!(ended.success());
    std::fs::create_dir_all(terminal.folder().join("data/workspaces/run_1/notes"))?;
    terminal.write("data/workspaces/run_1/notes/a.txt", "kept")?;
    let made = terminal.run(&["db", "backup", "--data", "data", "b.tar"])?;
    ensure!(made.starts_with("exit: 0\n") && made.contains("1 runs"), "{made}");
    ensure!(made.contains("keep a copy of data/host.key apart from it"), "{made}");
    Ok(terminal)
}

/// The names in the terminal's folder.
fn names(terminal: &Terminal) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(terminal.folder())?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn refused(terminal: &Terminal, arguments: &[&str], why: &str) -> Result<()> {
    let before = names(terminal)?;
    let said = terminal.run(arguments)?;
    ensure!(said.starts_with("exit: 1\n") && said.contains(why), "{arguments:?}: {said}");
    ensure!(names(terminal)? == before, "{arguments:?} left {:?}", names(terminal)?);
    Ok(())
}

#[test]
fn what_was_backed_up_is_restored_whole() -> Result<()> {
    let terminal = backed_up()?;
    let to = ["db", "restore", "b.tar", "--key", "data/host.key", "--data", "again"];
    let done = terminal.run(&to)?;
    ensure!(done.starts_with("exit: 0\n"), "{done}");
    let read = |path: &str| std::fs::read(terminal.folder().join(path));
    ensure!(read("again/workspaces/run_1/notes/a.txt")? == b"kept");
    ensure!(read("again/host.key")? == read("data/host.key")?);
    let output = terminal.command(&["db", "status", "--data", "again", "--json"]).output()?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(status["runs"]["completed"] == 1, "{status}");
    ensure!(!names(&terminal)?.iter().any(|name| name.starts_with('.')), "{:?}", names(&terminal)?);
    Ok(())
}

#[test]
fn a_restore_that_cannot_be_whole_changes_nothing() -> Result<()> {
    let terminal = backed_up()?;
    let restore = |archive: &str, key: &str, why: &str| {
        refused(&terminal, &["db", "restore", archive, "--key", key, "--data", "new"], why)
    };
    let whole = std::fs::read(terminal.folder().join("b.tar"))?;
    std::fs::write(terminal.folder().join("cut.tar"), &whole[..whole.len() / 2])?;
    restore("cut.tar", "data/host.key", "was not restored")?;
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(terminal.folder().join("changed.tar"), changed)?;
    restore("changed.tar", "data/host.key", "it was changed")?;
    terminal.write("other.key", &format!("{}\n", "5a".repeat(32)))?;
    restore("b.tar", "other.key", "is not the one that the database beside it was sealed with")?;
    restore("missing.tar", "data/host.key", "cannot be read")?;
    refused(
        &terminal,
        &["db", "restore", "b.tar", "--key", "data/host.key", "--data", "data"],
        "data is not empty",
    )?;
    let keyless = terminal.run(&["db", "restore", "b.tar", "--data", "new"])?;
    ensure!(keyless.starts_with("exit: 2\n") && keyless.contains("--key"), "{keyless}");
    let checked = terminal.run(&["db", "restore", "b.tar", "--check"])?;
    ensure!(checked.starts_with("exit: 0\n") && checked.contains("whole"), "{checked}");
    Ok(())
}

#[test]
fn a_backup_overwrites_nothing_and_a_shared_database_is_left_to_its_own_tools() -> Result<()> {
    let terminal = backed_up()?;
    refused(&terminal, &["db", "backup", "--data", "data", "b.tar"], "exists already")?;
    refused(&terminal, &["db", "backup", "--data", "nothing", "c.tar"], "there is no database")?;
    let shared = ["db", "backup", "c.tar", "--database-url", "postgres://db/callboard"];
    let said = terminal.run(&shared)?;
    ensure!(said.starts_with("exit: 2\n") && said.contains("pg_dump"), "{said}");
    Ok(())
}

/// A file that may not grow stands for a disk that is full: the write fails in the same place.
#[test]
fn a_disk_that_fills_during_a_backup_leaves_nothing_half() -> Result<()> {
    let terminal = backed_up()?;
    let program = assert_cmd::cargo::cargo_bin!("callboard");
    let program = program.to_str().context("a plain path")?;
    for blocks in [1, 64, 200] {
        let script = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec '{program}' db backup --data data full.tar"
        );
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", &script]).current_dir(terminal.folder()).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(
            output.status.code() == Some(1) && said.contains("was not made"),
            "{blocks}: {said}"
        );
        let left = names(&terminal)?;
        ensure!(
            !left.iter().any(|name| name.contains("full") || name.starts_with('.')),
            "{left:?}"
        );
    }
    ensure!(Path::new(&terminal.folder().join("data/callboard.db")).exists());
    Ok(())
}

/// A timer makes archives; a time means the newest that holds nothing from after it.
#[test]
fn a_folder_of_archives_is_restored_to_a_time() -> Result<()> {
    let terminal = backed_up()?;
    let backup = ["db", "backup", "--data", "data", "--into", "series", "--keep", "2", "--json"];
    let mut times = Vec::new();
    for _ in 0..3 {
        let made: Value = serde_json::from_str(&terminal.output(&backup)?)?;
        times.push(made["manifest"]["createdAt"].as_str().context("a time")?.to_owned());
    }
    let kept = std::fs::read_dir(terminal.folder().join("series"))?.count();
    ensure!(kept == 2, "{kept} archives");
    let restore = |time: &str, to: &str| {
        terminal.run(&[
            "db",
            "restore",
            "series",
            "--to",
            time,
            "--key",
            "data/host.key",
            "--data",
            to,
        ])
    };
    let done = restore(&times[1], "second")?;
    ensure!(done.starts_with("exit: 0\n"), "{done}");
    let early = restore(&times[0], "first")?;
    ensure!(early.starts_with("exit: 3\n") && early.contains("no archive of"), "{early}");
    ensure!(!terminal.folder().join("first").exists());
    let wrong = restore("yesterday", "first")?;
    ensure!(wrong.starts_with("exit: 2\n") && wrong.contains("is no time"), "{wrong}");
    let again = restore(&times[2], "second")?;
    ensure!(again.starts_with("exit: 1\n") && again.contains("is not empty"), "{again}");
    Ok(())
}
