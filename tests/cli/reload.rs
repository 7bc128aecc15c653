//! A host reads its files again: by command and by SIGHUP, all of them or none.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::terminal::Terminal;

fn noop(id: &str) -> String {
    format!("id: {id}\nnodes:\n  - id: only\n    type: core.noop\n")
}

#[test]
fn workflows_and_limits_are_read_again_and_a_broken_file_changes_nothing() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("callboard.toml", "")?;
    let host = terminal.host(&[])?;
    let at = terminal.at(host.url());
    let runs = |workflow: &str| -> Result<bool> {
        Ok(at.run(&["run", workflow, "--follow"])?.starts_with("exit: 0\n"))
    };
    ensure!(!runs("fresh")?, "it is there before its file");

    // A broken file refuses everything, the good one beside it too.
    terminal.write("workflows/fresh.yaml", &noop("fresh"))?;
    terminal.write("workflows/broken.yaml", "id: broken\nnodes:\n  - id: only\n    tpe: x\n")?;
    let refused = at.run(&["reload"])?;
    ensure!(
        refused.starts_with("exit: 1\n") && refused.contains("4:5: nodes[0].tpe: unknown key"),
        "{refused}"
    );
    ensure!(refused.contains("reload_refused"), "{refused}");
    ensure!(!runs("fresh")? && runs("noop")?, "a refused reload changed something");
    terminal.write("callboard.toml", "[limits]\nmax_node_exeutions = 3\n")?;
    let refused = at.run(&["reload"])?;
    ensure!(refused.contains("callboard.toml:2: unknown key"), "{refused}");

    // Mended: what counts at once counts, the rest is named.
    std::fs::remove_file(terminal.folder().join("workflows/broken.yaml"))?;
    terminal.write("callboard.toml", "[limits]\nmax_node_executions = 3\ninflight = 9\n")?;
    let output = at.command(&["reload", "--json"]).output()?;
    let reloaded: Value = serde_json::from_slice(&output.stdout).context("an answer")?;
    ensure!(reloaded["needsRestart"] == serde_json::json!(["limits.inflight"]), "{reloaded}");
    ensure!(runs("fresh")?);
    let chain = at.run(&["run", "chain", "--follow"])?;
    ensure!(chain.starts_with("exit: 1\n"), "ten nodes in a run of three: {chain}");

    // SIGHUP does the same, and never ends the host.
    std::fs::remove_file(terminal.folder().join("workflows/fresh.yaml"))?;
    terminal.write("workflows/later.yaml", &noop("later"))?;
    host.signal("HUP")?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while !runs("later")? {
        ensure!(Instant::now() < deadline, "SIGHUP reads nothing: {}", host.log());
    }
    ensure!(!runs("fresh")?, "what is not in the folder any more is not run");
    Ok(())
}

#[test]
fn only_an_admin_may_and_another_tenant_learns_no_names_of_files() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[
        "--api-key",
        "cbtest_acme=acme",
        "--api-key",
        "cbtest_reads=acme+runs:read",
    ])?;
    terminal.write("workflows/broken.yaml", "id: broken\nnodes: 7\n")?;
    let asked = |key: &str| -> Result<(Option<i32>, String)> {
        let mut command = terminal.command(&["reload", "--url", host.url(), "--api-key", key]);
        let output = command.output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    };
    let (code, said) = asked("cbtest_reads")?;
    ensure!(code == Some(4), "{said}");
    let (code, said) = asked("cbtest_acme")?;
    ensure!(code == Some(1) && !said.contains("broken.yaml"), "{said}");
    Ok(())
}
