//! Retention by rules, as an operator tries it: what would go is said by rule, and goes only when that is asked for.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::terminal::Terminal;

const RULES: &str = r#"
[retention]
runs_days = 30
[[retention.rules]]
tenant = "law"
keep = true
[[retention.rules]]
workflow = "quick"
status = "completed"
days = 7
"#;

const QUICK: &str = "
id: quick
nodes:
  - id: a
    type: core.noop
";

/// Sets all that has happened so far back by that many days.
fn age(terminal: &Terminal, days: i64) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tamper.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(terminal.folder().join("data/callboard.db"));
    ensure!(command.args(["age", &days.to_string()]).status()?.success(), "not aged");
    Ok(())
}

#[test]
fn what_would_go_is_said_by_rule_before_it_goes() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("workflows/quick.yaml", QUICK)?;
    let data = terminal.folder().join("data");
    let data = data.to_str().unwrap_or_default();
    let host = terminal.host(&[])?;
    let at = terminal.at(host.url());
    for _ in 0..3 {
        at.output(&["run", "quick", "--follow"])?;
    }
    let dry = ["db", "prune", "--dry-run", "--data", data];
    let none = terminal.run(&dry)?;
    ensure!(none.contains("every run is kept for ever"), "{none}");
    terminal.write("callboard.toml", RULES)?;
    let young = terminal.output(&[&dry[..], &["--json"]].concat())?;
    ensure!(young.contains(r#""dryRun":true"#) || young.contains(r#""dryRun": true"#), "{young}");
    host.stop("TERM")?;
    age(&terminal, 8)?;
    let host = terminal.host(&[])?;
    // Beside the host, whose own turn comes within a minute, nothing goes.
    let shown = terminal.output(&dry)?;
    ensure!(shown.contains("workflow quick, status completed"), "{shown}");
    let busy = terminal.run(&["db", "prune", "--data", data])?;
    ensure!(busy.starts_with("exit: 1\n") && busy.contains("another process is using"), "{busy}");
    host.stop("KILL")?;
    let removed: serde_json::Value =
        serde_json::from_str(&terminal.output(&["db", "prune", "--data", data, "--json"])?)?;
    // The run with the newest event of all stays.
    ensure!(removed["rules"][0]["runs"] == 2 && removed["rules"][1]["runs"] == 0, "{removed}");
    ensure!(removed["rules"][0]["bytes"].as_u64() > Some(0), "{removed}");
    let again: serde_json::Value =
        serde_json::from_str(&terminal.output(&[&dry[..], &["--json"]].concat())?)?;
    ensure!(again["rules"][0]["runs"] == 0, "{again}");
    let help =
        Command::new(env!("CARGO_BIN_EXE_callboard")).args(["db", "prune", "--help"]).output()?;
    ensure!(String::from_utf8(help.stdout)?.contains("--dry-run"));
    Ok(())
}
