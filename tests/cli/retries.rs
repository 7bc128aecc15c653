//! Going on with runs that failed, at the command line.

use anyhow::{Result, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

/// A release that somebody rejected.
fn rejected(user: &Terminal) -> Result<String> {
    let run = user.output(&["run", "release"])?.trim().to_owned();
    user.wait_for_question(&run)?;
    user.output(&["inbox", "answer", &run, "--action", "reject"])?;
    Ok(run)
}

#[test]
fn a_run_that_failed_goes_on_from_there() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let run = rejected(&user)?;
    let follow = ["runs", "retry", &run, "--follow"];
    assert_snapshot!("retry_1_follow", user.run_with("accept\n", &follow)?);
    assert_snapshot!("retry_2_json", user.run(&["runs", "retry", &run, "--json"])?);
    let again = ["runs", "retry", &run, "--idempotency-key", "once"];
    assert_eq!(user.output(&again)?, user.output(&again)?);
    Ok(())
}

#[test]
fn what_cannot_be_retried_is_said() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let asking = user.output(&["run", "release"])?.trim().to_owned();
    user.wait_for_question(&asking)?;
    assert_snapshot!("retry_3_running", user.run(&["runs", "retry", &asking])?);
    let done = user.output(&["run", "noop"])?.trim().to_owned();
    user.output(&["runs", "events", &done, "--follow"])?;
    assert_snapshot!("retry_4_completed", user.run(&["runs", "retry", &done])?);
    let wrong = ["runs", "retry", &done, "--from", "nope"];
    assert_snapshot!("retry_5_node", user.run(&wrong)?);
    assert_snapshot!("retry_6_unknown", user.run(&["runs", "retry", "run_nope"])?);
    assert_snapshot!("retry_7_status", user.run(&["runs", "retry", "--status", "running"])?);
    Ok(())
}

#[test]
fn many_are_retried_by_a_filter() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    assert_snapshot!("retry_8_none", user.run(&["runs", "retry"])?);
    rejected(&user)?;
    let many = ["runs", "retry", "--status", "failed", "--workflow", "release", "--since", "1h"];
    let dry = [&many[..], &["--dry-run"]].concat();
    assert_snapshot!("retry_9_dry", user.run(&dry)?);
    assert_snapshot!("retry_10_made", user.run(&many)?);
    assert_snapshot!("retry_11_again", user.run(&many)?);
    let told: Value = serde_json::from_str(&user.output(&[&many[..], &["--json"]].concat())?)?;
    ensure!(told["results"][0]["outcome"] == "already-retried", "{told}");
    Ok(())
}
