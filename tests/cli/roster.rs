//! `callboard roster` as its user sees it.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;
use crate::triggers::{PATIENCE, given_up};

const TRIAGER: &str = "community.callboard.starter.triager";
const MESSAGE: &str = "{\"message\": \"The printer is on fire.\"}";

/// A workflow whose one node asks the starter pack's triager.
const DESK: &str = r#"{ "id": "desk", "name": "Desk", "version": "1.0",
    "nodes": [{ "id": "triage", "typeId": "core.identity", "name": "Triage", "position": { "x": 0, "y": 0 },
        "config": {}, "agent": { "agentId": "community.callboard.starter.triager" },
        "inputs": { "message": { "type": "variable", "variableName": "message" } } }],
    "edges": [], "triggers": [{ "id": "manual", "type": "manual" }],
    "variables": [{ "name": "message", "type": "string" }], "metadata": {}, "settings": {} }"#;

fn starter() -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/starter");
    Ok(folder.to_str().context("a folder with a plain name")?.to_owned())
}

/// Asks until what waited has begun and its run is over; asking takes a moment of its own.
fn work_done(user: &Terminal, member: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let work = user.output(&["roster", "work", "list", member, "--json"])?;
        let work: Value = serde_json::from_str(&work)?;
        let items = work["work"].as_array().context("a list")?;
        if items.iter().all(|item| item["runStatus"] == "completed") {
            return Ok(());
        }
    }
    bail!("{member} has not begun what waited")
}

#[test]
fn a_member_is_hired_given_work_and_looked_at() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("workflows/desk.json", DESK)?;
    let starter = starter()?;
    let host = terminal.host(&["--packs", &starter])?;
    let user = terminal.at(host.url());
    assert_snapshot!("01_nobody", user.run(&["roster", "list"])?);
    let hire = ["roster", "hire", "--persona", "Sally", "--agent", TRIAGER, "--workflow", "desk"];
    let id = user.output(&hire)?.trim().to_owned();
    ensure!(id.starts_with("host:sally-"), "{id}");
    let seen = |name: &str, arguments: &[&str]| -> Result<()> {
        let shown = user.run(&[&["roster"], arguments].concat())?;
        assert_snapshot!(name, shown.replace(&id, "[member]"));
        Ok(())
    };
    seen("02_list", &["list"])?;
    seen("03_idle", &["show", &id])?;
    seen("04_fire", &["fire", &id, "desk", "--input", MESSAGE, "--follow"])?;
    seen("05_not_hers", &["fire", &id, "noop"])?;
    let item =
        user.output(&["roster", "work", "add", &id, "Printer", "--input", MESSAGE, "--json"])?;
    let item: Value = serde_json::from_str(&item)?;
    let work = item["workId"].as_str().context("an item")?;
    let run = item["runId"].as_str().context("a run")?;
    user.output(&["runs", "events", run, "--follow"])?;
    let listed = user.run(&["roster", "work", "list", &id])?;
    assert_snapshot!("06_work", listed.replace(work, "[work]"));
    let origin = user.run(&["runs", "ancestry", run])?;
    let origin = origin.replace(work, "[work]").replace(&id, "[member]");
    let name = id.trim_start_matches("host:");
    let queue = regex::Regex::new(&format!("work-{name}-[0-9a-f]+"))?;
    assert_snapshot!("06a_origin", queue.replace_all(&origin, "[queue]"));
    let done = user.run(&["roster", "work", "done", &id, work])?;
    assert_snapshot!("07_done", done.replace(work, "[work]"));
    seen("08_page", &["show", &id])?;
    seen("09_pause", &["pause", &id])?;
    seen("10_paused", &["fire", &id, "desk"])?;
    let waits = user.run(&["roster", "work", "back", &id, work])?;
    assert_snapshot!("11_waits", waits.replace(work, "[work]"));
    seen("12_resume", &["resume", &id])?;
    work_done(&user, &id)?;
    seen("13_update", &["update", &id, "--persona", "Sal", "--description", "Sorts letters."])?;
    seen("14_nothing_to_update", &["update", &id])?;
    seen("15_dismiss", &["dismiss", &id])?;
    seen("16_gone", &["show", &id])?;
    let found = |filter: &[&str]| -> Result<usize> {
        let runs = user.output(&[&["runs", "list", "--json"], filter].concat())?;
        let runs: serde_json::Value = serde_json::from_str(&runs)?;
        Ok(runs["runs"].as_array().map_or(0, Vec::len))
    };
    let by_hand = found(&["--trigger", "callboard.manual"])?;
    assert!(by_hand > 0, "what a member was fired with by hand");
    assert_eq!(found(&["--trigger", "schedule"])?, 0);
    assert!(found(&["--text", &id.to_uppercase()])? >= by_hand, "by the name of the member");
    assert_eq!(found(&["--text", "nothing is like this", "--min-cost", "0.5"])?, 0);
    let runs = user.output(&["runs", "list", "--member", &id, "--json"])?;
    let runs: Value = serde_json::from_str(&runs)?;
    ensure!(runs["runs"].as_array().is_some_and(|runs| runs.len() == 3), "{runs}");
    Ok(())
}

/// Somebody who owns nothing, somebody who is paused, and somebody whose subscription has given up.
#[test]
fn a_page_says_what_to_do_next() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write(
        "workflows/desk.json",
        &DESK.replace("\"string\" }", "\"string\", \"required\": true }"),
    )?;
    let starter = starter()?;
    let host = terminal.host(&["--packs", &starter])?;
    let user = terminal.at(host.url());
    let id = user.output(&["roster", "hire", "--persona", "Sally", "--agent", TRIAGER])?;
    let id = id.trim();
    let settled = |shown: String| shown.replace(id, "[member]");
    assert_snapshot!("next_1_owns_nothing", settled(user.run(&["roster", "show", "Sally"])?));
    user.output(&["roster", "update", "sally", "--workflow", "desk"])?;
    user.output(&["roster", "pause", "Sally"])?;
    user.output(&["roster", "work", "add", "Sally", "Printer", "--input", MESSAGE])?;
    assert_snapshot!("next_2_paused", settled(user.run(&["roster", "show", "Sally"])?));
    user.output(&["roster", "resume", "Sally"])?;
    work_done(&user, "Sally")?;
    terminal.write("errand.json", &DESK.replace("\"desk\"", "\"errand\""))?;
    user.output(&["workflows", "apply", "errand.json"])?;
    user.output(&["roster", "update", "Sally", "--workflow", "desk", "--workflow", "errand"])?;
    let add = ["triggers", "add", "errand", "--as", "Sally", "--source", "queue"];
    let queue = user.output(&[&add as &[&str], &["--max-attempts", "1"]].concat())?;
    let queue = queue.trim();
    user.output(&["workflows", "remove", "errand"])?;
    user.output(&["triggers", "deliver", queue, "--id", "letter-1"])?;
    given_up(&user, queue)?;
    let shown = settled(user.run(&["roster", "show", "Sally"])?).replace(queue, "[queue]");
    assert_snapshot!("next_3_given_up", shown);
    Ok(())
}

#[test]
fn a_member_goes_by_its_name_where_only_one_is_called_so() -> Result<()> {
    let terminal = Terminal::new()?;
    let starter = starter()?;
    let host = terminal.host(&["--packs", &starter])?;
    let user = terminal.at(host.url());
    let hire = || user.output(&["roster", "hire", "--persona", "Sally", "--agent", TRIAGER]);
    let first = hire()?;
    assert_snapshot!("name_1_nobody", user.run(&["roster", "pause", "Sal"])?);
    let second = hire()?;
    let mut both = [first.trim(), second.trim()];
    both.sort_unstable();
    let shown = user.run(&["roster", "pause", "SALLY"])?;
    assert_snapshot!("name_2_both", shown.replace(both[0], "[first]").replace(both[1], "[second]"));
    Ok(())
}

#[test]
fn a_page_says_what_comes_next_and_what_today_may_cost() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("workflows/desk.json", DESK)?;
    let starter = starter()?;
    let host = terminal.host(&["--packs", &starter])?;
    let user = terminal.at(host.url());
    let hire = ["roster", "hire", "--persona", "Sally", "--agent", TRIAGER, "--workflow", "desk"];
    let id = user.output(&hire)?.trim().to_owned();
    user.output(&["schedules", "add", "desk", "--cron", "0 9 * * MON", "--as", &id])?;
    let update = ["roster", "update", &id];
    user.output(&[&update as &[&str], &["--daily-cost-usd", "2.5"]].concat())?;
    user.output(&[&update as &[&str], &["--daily-tokens", "1000"]].concat())?;
    let shown = user.output(&["roster", "show", &id])?;
    let today = "today      $0.00 of $2.50, 0 of 1000 tokens\n";
    ensure!(shown.contains(today), "the first ceiling stays with the second: {shown}");
    let next = shown.lines().find(|line| line.starts_with("next ")).context("a next fire")?;
    ensure!(next.contains(": desk, ") && next.contains("Monday"), "{next}");
    user.output(&[&update as &[&str], &["--usual-budget"]].concat())?;
    let shown = user.output(&["roster", "show", &id, "--json"])?;
    let shown: Value = serde_json::from_str(&shown)?;
    ensure!(shown["activity"]["today"]["source"] == "host", "{shown}");
    Ok(())
}

#[test]
fn a_run_is_started_as_a_member() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("workflows/desk.json", DESK)?;
    let starter = starter()?;
    let host = terminal.host(&["--packs", &starter])?;
    let user = terminal.at(host.url());
    let hire = ["roster", "hire", "--persona", "Sally", "--agent", TRIAGER, "--json"];
    let hired = user.output(&[&hire as &[&str], &["--workflow", "desk"]].concat())?;
    let hired: Value = serde_json::from_str(&hired)?;
    let id = hired["rosterId"].as_str().context("an id")?;
    for name in ["desk", TRIAGER, id] {
        let mut arguments = vec!["run", name, "--input", MESSAGE, "--json"];
        if name != id {
            arguments.extend(["--as", id]);
        }
        let run: Value = serde_json::from_str(&user.output(&arguments)?)?;
        let run = run["runId"].as_str().context("a run")?;
        let events = user.output(&["runs", "events", run, "--follow", "--json"])?;
        let second: Value = serde_json::from_str(events.lines().nth(1).context("two events")?)?;
        ensure!(second["type"] == "roster.run.initiated", "{name}: {second}");
        ensure!(second["payload"]["rosterId"] == id, "{name}: {second}");
    }
    let shown = user.output(&["roster", "show", id, "--json"])?;
    let shown: Value = serde_json::from_str(&shown)?;
    ensure!(shown["persona"] == "Sally" && shown["activity"]["spent"]["costUsd"] == 0.0, "{shown}");
    let refused =
        |arguments: &[&str]| -> Result<String> { Ok(user.run(arguments)?.replace(id, "[member]")) };
    let reviewer = "community.callboard.starter.reviewer";
    assert_snapshot!("as_another_agent", refused(&["run", reviewer, "--as", id])?);
    assert_snapshot!("as_nobody", refused(&["run", "desk", "--as", "host:nobody-1"])?);
    assert_snapshot!("not_owned", refused(&["run", "noop", "--as", id])?);
    assert_snapshot!("nobody", refused(&["run", "host:nobody-1"])?);
    Ok(())
}

#[test]
fn a_mention_starts_a_run_and_follows_it() -> Result<()> {
    let terminal = Terminal::new()?;
    let starter = starter()?;
    let host = terminal.host(&["--packs", &starter])?;
    let user = terminal.at(host.url());
    let id = user.output(&["roster", "hire", "--persona", "Sally", "--agent", TRIAGER])?;
    let said = user.run(&["chat", "@Sally The printer is on fire."])?;
    assert_snapshot!("chat_with_a_member", said.replace(id.trim(), "[member]"));
    let events = user.output(&["chat", "--json", &format!("@{TRIAGER}"), "it", "burns"])?;
    let first: Value = serde_json::from_str(events.lines().next().context("an event")?)?;
    ensure!(first["payload"]["inputs"]["message"] == "it burns", "{first}");
    ensure!(events.contains("\"source\":\"chat-mention\""), "{events}");
    assert_snapshot!("chat_with_nobody", user.run(&["chat", "@Nobody help"])?);
    Ok(())
}

/// A-22: an advertisement that contradicts itself stops the start.
#[test]
fn a_roster_that_contradicts_its_agents_stops_the_start() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("callboard.toml", "[roster]\ninstall_scope = \"host\"\n")?;
    assert_snapshot!("contradiction", terminal.run(&["serve", "--listen", "127.0.0.1:0"])?);
    ensure!(!terminal.folder().join("callboard-data").exists(), "nothing is left behind");
    Ok(())
}
