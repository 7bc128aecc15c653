//! `callboard demo` as its user sees it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::support::host::signal_process;
use crate::terminal::Terminal;

#[test]
fn the_demo_shows_a_member_at_work_and_ends_by_itself() -> Result<()> {
    let terminal = Terminal::new()?;
    let shown = terminal.run(&["demo", "--once"])?;
    for part in [
        "exit: 0\n",
        "a host on http://127.0.0.1:",
        "The model is scripted",
        "the pack community.callboard.starter 1.0.0",
        "hired:      Sally (host:sally-",
        "fired:      triage-desk",
        "▶ for Sally",
        "(queue)",
        "low-confidence: community.callboard.starter.triager is 0.3 sure, 0.7 is needed",
        "» Sort it                {\"action\":\"accept\"} by ",
        "approval: Is it sorted well?",
        "✓ run completed",
        "state:      completed",
        "result:     {\"kind\":\"question\"",
        "cost:       $0.00 for ",
        "of the scripted model",
        "address:    http://127.0.0.1:",
    ] {
        assert!(shown.contains(part), "{part:?} is missing: {shown}");
    }
    assert_eq!(
        std::fs::read_dir(terminal.folder().join("tmp"))?.count(),
        0,
        "the temporary folder is gone"
    );
    Ok(())
}

#[test]
fn the_demo_spends_no_key_that_happens_to_be_set() -> Result<()> {
    let terminal = Terminal::new()?;
    let output = terminal
        .command(&["demo", "--once"])
        .env("CALLBOARD_MODEL", "anthropic/claude-sonnet-4-5")
        .env("ANTHROPIC_API_KEY", "sk-not-to-be-used")
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
        .output()?;
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("on scripted/scripted"), "{shown}");
    Ok(())
}

#[test]
fn the_demo_serves_until_it_is_interrupted() -> Result<()> {
    let terminal = Terminal::new()?;
    let mut demo = terminal.command(&["demo"]).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(demo.stdout.take().context("no standard output")?).lines();
    let mut shown = Vec::new();
    for line in lines {
        shown.push(line?);
        if shown.last().is_some_and(|line| line == "serving until Ctrl-C") {
            signal_process(demo.id(), "INT")?;
        }
    }
    assert_eq!(demo.wait()?.code(), Some(0), "{shown:?}");
    assert!(
        shown.iter().any(|line| line.contains("callboard triggers deliver tsub_")),
        "{shown:?}"
    );
    Ok(())
}
