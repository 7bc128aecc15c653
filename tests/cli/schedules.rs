//! Schedules from a terminal.

use anyhow::Result;
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

#[test]
fn a_schedule_is_made_looked_at_paused_and_removed() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    assert_snapshot!("schedule_01_none", user.run(&["schedules", "list"])?);
    let yearly = ["--cron", "0 0 1 JAN *", "--timezone", "Europe/Berlin"];
    let add = ["schedules", "add", "noop", "--json"];
    let made: Value = serde_json::from_str(&user.output(&[&add as &[&str], &yearly].concat())?)?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    let next = user.output(&["schedules", "next", &id, "--count", "2"])?;
    assert!(next.lines().all(|line| line.ends_with("-12-31T23:00:00.000Z")), "{next}");
    let run = user.output(&["schedules", "run-now", &id])?;
    let shown: Value =
        serde_json::from_str(&user.output(&["runs", "show", run.trim(), "--json"])?)?;
    assert_eq!(shown["metadata"]["scheduleId"], id.as_str());
    assert!(user.run(&["schedules", "pause", &id])?.contains("paused"));
    let listed = user.output(&["schedules", "list"])?;
    assert!(listed.contains("paused") && listed.contains("(Europe/Berlin)"), "{listed}");
    assert!(user.run(&["schedules", "resume", &id])?.contains("resumed"));
    assert!(user.run(&["schedules", "remove", &id])?.contains("removed"));
    assert_snapshot!("schedule_02_gone", user.run(&["schedules", "next", "sched_0"])?);
    let wrong = |more: &[&str]| user.run(&[&["schedules", "add", "noop"], more].concat());
    assert_snapshot!("schedule_03_neither", wrong(&[])?);
    assert_snapshot!("schedule_04_three_fields", wrong(&["--cron", "0 9 MON-FRI"])?);
    assert_snapshot!("schedule_05_zone", wrong(&["--cron", "0 9 * * *", "--timezone", "Mars"])?);
    assert_snapshot!("schedule_06_horizon", wrong(&["--at", "2099-01-01T00:00:00Z"])?);
    Ok(())
}
