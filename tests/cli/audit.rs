//! The audit log from a terminal, and what is said once somebody had a hand in the file.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::support::host::Host;
use crate::terminal::Terminal;

/// Takes rows of the audit log away or spoils them, as whoever can write the file could.
fn tamper(data: &Path, how: &str, sequence: u64) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tamper.py");
    let file = data.join("callboard.db");
    let mut python = Command::new("python3");
    python.arg(script).arg(file).args([how, &sequence.to_string()]);
    let status = python.status().context("Python is not installed")?;
    ensure!(status.success(), "nothing was changed");
    Ok(())
}

#[test]
fn what_was_done_is_listed_and_a_row_that_was_changed_or_dropped_is_named() -> Result<()> {
    let terminal = Terminal::new()?;
    let data = terminal.folder().join("data");
    let host = Host::start(&data, &["--api-key", "cbtest_reader=default+runs:read"])?;
    let user = terminal.at(host.url());
    for name in ["openai", "github", "slack"] {
        user.run_with("hunter2-hunter2", &["secrets", "set", name])?;
    }
    let listed = user.run(&["audit", "list"])?;
    ensure!(listed.contains("secret.made") && listed.contains("slack"), "{listed}");
    ensure!(!listed.contains("hunter2"), "{listed}");
    let sound = user.run(&["audit", "verify"])?;
    ensure!(sound.contains("exit: 0") && sound.contains("3 entries"), "{sound}");
    let exported = user.run(&["audit", "export"])?;
    ensure!(exported.matches("\"prevHash\"").count() == 4, "{exported}");
    let refused = user.run(&["audit", "list", "--api-key", "cbtest_reader"])?;
    ensure!(refused.contains("exit: 4"), "{refused}");
    ensure!(host.stop("TERM")?.success(), "the host did not end well");
    for (how, sequence) in [("change", 2), ("drop", 3)] {
        tamper(&data, how, sequence)?;
        let host = Host::start(&data, &[])?;
        let said = terminal.at(host.url()).run(&["audit", "verify"])?;
        ensure!(said.contains("exit: 1"), "{said}");
        ensure!(said.contains(&format!("entry {sequence} is missing, cannot be read")), "{said}");
        ensure!(host.stop("TERM")?.success(), "the host did not end well");
    }
    Ok(())
}
