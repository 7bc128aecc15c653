//! Time travel and runs within runs, at the command line.

use anyhow::{Context, Result, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

/// A release that somebody rejected: its log is the same every time.
fn rejected(user: &Terminal) -> Result<String> {
    let run = user.output(&["run", "release"])?.trim().to_owned();
    user.wait_for_question(&run)?;
    user.output(&["inbox", "answer", &run, "--action", "reject"])?;
    Ok(run)
}

fn kinds(lines: &str) -> Result<Vec<Value>> {
    lines.lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["type"].take())).collect()
}

/// What the README says of the shipped examples, numbers included.
#[test]
fn the_stories_of_the_readme_hold() -> Result<()> {
    let terminal = Terminal::new()?;
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/workflows");
    let host = terminal.host(&["--workflows", examples])?;
    let user = terminal.at(host.url());
    let run = user.output(&["run", "sign-off"])?.trim().to_owned();
    user.output(&["inbox", "answer", &run, "--action", "reject"])?;
    let decision = user.output(&["runs", "events", &run])?;
    let decision = decision.lines().find(|line| line.starts_with("   5 "));
    ensure!(decision.is_some_and(|line| line.contains("» Ask the editor")), "{decision:?}");
    let run = user.output(&["run", "rounds", "--config", "recursionLimit=4"])?.trim().to_owned();
    let failed = user.output(&["runs", "events", &run, "--follow"])?;
    let limit = failed.lines().find(|line| line.starts_with("   9 "));
    ensure!(limit.is_some_and(|line| line.contains("! limit reached")), "{failed}");
    let branch = ["runs", "fork", &run, "--mode", "branch", "--from-seq", "9", "--follow"];
    let shown = user.output(&[&branch[..], &["--config", "recursionLimit=50"]].concat())?;
    ensure!(shown.contains("✓ All doors shut") && shown.contains("✓ run completed"), "{shown}");
    Ok(())
}

/// A wrong answer, the road not taken, and what happened once more.
#[test]
fn a_wrong_answer_is_taken_back_in_a_branch() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let run = rejected(&user)?;
    assert_snapshot!("fork_1_events", user.run(&["runs", "events", &run])?);
    let branch = ["runs", "fork", &run, "--mode", "branch", "--from-seq", "5"];
    let branch = user.output(&branch)?.trim().to_owned();
    user.output(&["inbox", "answer", &branch, "--action", "accept"])?;
    assert_snapshot!("fork_2_branch", user.run(&["runs", "show", &branch])?);
    assert_snapshot!("fork_3_diff", user.run(&["runs", "diff", &run, &branch])?);
    let follow = ["runs", "fork", &run, "--mode", "branch", "--from-seq", "5", "--follow"];
    assert_snapshot!("fork_4_answered", user.run_with("accept\n", &follow)?);
    let replay = ["runs", "fork", &run, "--mode", "replay", "--follow"];
    assert_snapshot!("fork_5_replay", user.run(&replay)?);
    Ok(())
}

#[test]
fn a_replay_tells_scripts_what_its_source_told() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let run = rejected(&user)?;
    let source = user.output(&["runs", "events", &run, "--json"])?;
    let replay = ["runs", "fork", &run, "--mode", "replay", "--from-seq", "2", "--json"];
    assert_snapshot!("fork_6_json", user.run(&replay)?);
    let forked: Value = serde_json::from_str(&user.output(&replay)?)?;
    let fork = forked["runId"].as_str().context("no runId")?;
    user.output(&["runs", "events", fork, "--follow", "--json"])?;
    assert_eq!(kinds(&user.output(&["runs", "events", fork, "--json"])?)?, kinds(&source)?);
    let diff = user.output(&["runs", "diff", &run, fork])?;
    ensure!(diff.contains("diverged   nowhere"), "{diff}");
    let lines = user.run(&["runs", "fork", &run, "--mode", "replay", "--follow", "--json"])?;
    ensure!(lines.starts_with("exit: 1\n"), "a replay of what failed fails: {lines}");
    let told = lines.lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>().join("\n");
    assert_eq!(kinds(&told)?, kinds(&source)?);
    Ok(())
}

#[test]
fn a_branch_takes_other_options_and_what_cannot_be_forked_is_said() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--api-key", "reader=default+runs:read"])?;
    let user = terminal.at(host.url());
    let run = user.output(&["run", "chain"])?.trim().to_owned();
    user.output(&["runs", "events", &run, "--follow", "--mode", "updates"])?;
    let fork = |rest: &[&str]| user.run(&[&["runs", "fork", &run, "--mode"], rest].concat());
    let option = ["--config", "recursionLimit=2", "--tag", "again", "--follow"];
    assert_snapshot!(
        "fork_7_config",
        fork(&[&["branch", "--from-seq", "3"], &option[..]].concat())?
    );
    let tagged: Value =
        serde_json::from_str(&user.output(&["runs", "list", "--tag", "again", "--json"])?)?;
    assert_eq!(tagged["runs"].as_array().map(Vec::len), Some(1));
    let refused = ["branch", "--from-seq", "3", "--config", "recursionLimit=0"];
    assert_snapshot!("fork_8_bad_option", fork(&refused)?);
    assert_snapshot!("fork_9_beyond", fork(&["branch", "--from-seq", "99"])?);
    assert_snapshot!("fork_10_scope", fork(&["replay", "--api-key", "reader"])?);
    let unknown = ["runs", "fork", "run_nope", "--mode", "replay"];
    assert_snapshot!("fork_11_unknown", user.run(&unknown)?);
    Ok(())
}

#[test]
fn a_family_is_told_from_its_youngest() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let run = user.output(&["run", "family"])?.trim().to_owned();
    let child = (0..1_000).find_map(|_| asking(&user).transpose());
    let child = child.context("nobody asks")??;
    // Whichever child ends first is told first: the one that only waits, however long an answer takes.
    let told = (0..1_000).find_map(|_| errand(&user, &run).transpose());
    told.context("the errand does not end")??;
    user.output(&["inbox", "answer", &child, "--action", "accept"])?;
    user.output(&["runs", "events", &run, "--follow", "--mode", "updates"])?;
    assert_snapshot!("family_1_child", user.run(&["runs", "ancestry", &child])?);
    assert_snapshot!("family_2_json", user.run(&["runs", "ancestry", &child, "--json"])?);
    assert_snapshot!("family_3_top", user.run(&["runs", "ancestry", &run])?);
    assert_snapshot!("family_4_unknown", user.run(&["runs", "ancestry", "run_nope"])?);
    assert_snapshot!("family_5_parent", user.run(&["runs", "show", &run])?);
    assert_snapshot!("family_6_show", user.run(&["runs", "show", &child])?);
    let fork = user.output(&["runs", "fork", &child, "--mode", "replay"])?.trim().to_owned();
    user.output(&["runs", "events", &fork, "--follow", "--mode", "updates"])?;
    assert_snapshot!("family_7_fork", user.run(&["runs", "ancestry", &fork])?);
    Ok(())
}

/// What the child that only waits came to, if it did by now.
fn errand(user: &Terminal, run: &str) -> Result<Option<Value>> {
    let shown: Value = serde_json::from_str(&user.output(&["runs", "show", run, "--json"])?)?;
    Ok(shown["variables"].get("errand").cloned())
}

/// The run that asks something, if one does by now.
fn asking(user: &Terminal) -> Result<Option<String>> {
    let inbox: Value = serde_json::from_str(&user.output(&["inbox", "list", "--json"])?)?;
    Ok(inbox["interrupts"][0]["runId"].as_str().map(str::to_owned))
}
