//! `callboard triggers` as its user sees it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use insta::assert_snapshot;
use regex::Regex;
use serde_json::Value;

use crate::terminal::Terminal;

/// Reached only when nothing is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A workflow that cannot start without a message.
const ORDERS: &str = r#"{ "id": "orders", "name": "Orders", "version": "1.0",
    "nodes": [{ "id": "only", "typeId": "core.noop", "name": "Only", "position": { "x": 0, "y": 0 },
        "config": {}, "inputs": {} }],
    "edges": [], "triggers": [], "metadata": {}, "settings": {},
    "variables": [{ "name": "message", "type": "string", "required": true }] }"#;

/// A text with a name in the place of every id that the host drew.
fn settled(text: &str) -> Result<String> {
    let mut text = text.to_owned();
    for (varying, stands_for) in [
        (r"tsub_[0-9a-f]{48}", "[subscription]"),
        (r"dlv_[0-9a-f]{32}", "[delivery]"),
        (r"whsec_[A-Za-z0-9+/=]+", "[secret]"),
        (r"run_[0-9a-f]{32}", "[run]"),
        (r"http://127.0.0.1:[0-9]+", "[host]"),
        (r"secretFingerprint: [0-9a-f]+", "secretFingerprint: [fingerprint]"),
        (r"(?m)  +", "  "),
    ] {
        text = Regex::new(varying)?.replace_all(&text, stands_for).into_owned();
    }
    Ok(text)
}

/// Asks until a subscription was given up; asking takes a moment of its own.
pub(crate) fn given_up(user: &Terminal, id: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let listed: Value = serde_json::from_str(&user.output(&["triggers", "list", "--json"])?)?;
        let subscriptions = listed["subscriptions"].as_array().context("a list")?;
        let found = subscriptions.iter().find(|known| known["subscriptionId"] == id);
        if found.is_some_and(|found| found["state"] == "dead-lettered") {
            return Ok(());
        }
    }
    bail!("{id} is not given up")
}

#[test]
fn a_subscription_is_made_fed_paused_played_again_and_removed() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("orders.json", ORDERS)?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    user.output(&["workflows", "apply", "orders.json"])?;
    let seen = |name: &str, arguments: &[&str]| -> Result<()> {
        let shown = user.run(&[&["triggers"], arguments].concat())?;
        assert_snapshot!(name, settled(&shown)?);
        Ok(())
    };
    seen("01_none", &["list"])?;
    seen("02_webhook", &["add", "noop", "--source", "webhook"])?;
    seen("03_mail", &["add", "noop", "--source", "email"])?;
    seen("04_no_such_workflow", &["add", "nope", "--source", "queue"])?;
    seen("05_no_mapping", &["add", "orders", "--source", "queue", "--map", "message"])?;
    let add = ["triggers", "add", "orders", "--source", "queue", "--max-attempts", "1", "--json"];
    let map = ["--map", "message=queue.message"];
    let made: Value = serde_json::from_str(&user.output(&[&add[..], &map].concat())?)?;
    let id = made["subscription"]["subscriptionId"].as_str().context("an id")?;
    let first = ["deliver", id, "--id", "order-1", "--payload", "{\"message\": \"hello\"}"];
    seen("06_delivered", &first)?;
    seen("07_duplicate", &first)?;
    seen("08_no_json", &["deliver", id, "--id", "order-2", "--payload", "hello"])?;
    seen("09_pause", &["pause", id])?;
    seen("10_paused", &["deliver", id, "--id", "order-2"])?;
    seen("11_resume", &["resume", id])?;
    seen("12_no_letters", &["dead-letters", id])?;
    seen("13_unfit", &["deliver", id, "--id", "order-2", "--payload", "{\"n\": 2}"])?;
    seen("14_list", &["list"])?;
    seen("15_next", &["deliver", id, "--id", "order-3", "--payload", "{\"message\": \"hi\"}"])?;
    seen("16_dead_letters", &["dead-letters", id])?;
    let letters = user.output(&["triggers", "dead-letters", id, "--json"])?;
    ensure!(!letters.contains("\"n\""), "a dead letter shows its content: {letters}");
    let page =
        user.run(&["triggers", "dead-letters", id, "--limit", "1", "--cursor", "nothing"])?;
    ensure!(!page.contains("unexpected argument"), "what is advised is not taken: {page}");
    let letters: Value = serde_json::from_str(&letters)?;
    let letter = letters["deliveries"][0]["attemptEventId"].as_str().context("a letter")?;
    seen("17_too_soon", &["replay", id, letter])?;
    terminal.write("lax.json", &ORDERS.replace("true", "false"))?;
    user.output(&["workflows", "apply", "lax.json"])?;
    let run = user.output(&["triggers", "replay", id, letter])?;
    let told = user.output(&["runs", "ancestry", run.trim(), "--json"])?;
    let told: Value = serde_json::from_str(&told)?;
    ensure!(told["delivery"]["subscriptionId"] == id, "{told}");
    ensure!(told["delivery"]["attempt"] == 2, "{told}");
    seen("18_once_only", &["replay", id, letter])?;
    user.output(&["workflows", "apply", "orders.json"])?;
    seen("19_unknown", &["pause", "tsub_0"])?;
    seen("20_show", &["show", id])?;
    seen("21_removed", &["remove", id])?;
    seen("22_gone", &["show", id])?;
    seen("23_no_input", &["add", "orders", "--source", "form"])?;
    Ok(())
}
