//! Heartbeats from a terminal.

use anyhow::Result;
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

const ADDRESS: &str = "https://status.example.com/page";

#[test]
fn a_heartbeat_is_made_listed_paused_resumed_and_removed() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    assert_snapshot!("heartbeat_01_none", user.run(&["heartbeats", "list"])?);
    // Paused, so that nobody looks anywhere.
    let add = ["heartbeats", "add", "noop", "--watch", ADDRESS, "--every", "3600", "--paused"];
    let made = user.output(&[&add as &[&str], &["--json"]].concat())?;
    let made: Value = serde_json::from_str(&made)?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    assert_eq!((&made["enabled"], &made["intervalSec"]), (&false.into(), &3600.into()));
    let list = user.output(&["heartbeats", "list"])?;
    assert_snapshot!("heartbeat_02_listed", list.replace(&id, "[id]"));
    let listed: Value = serde_json::from_str(&user.output(&["heartbeats", "list", "--json"])?)?;
    assert_eq!(listed["heartbeats"][0]["url"], ADDRESS);
    assert_eq!(user.output(&["heartbeats", "pause", &id])?.trim(), format!("{id} paused"));
    let paused = user.output(&["heartbeats", "pause", &id, "--json"])?;
    assert_eq!(serde_json::from_str::<Value>(&paused)?["enabled"], false);
    assert_eq!(user.output(&["heartbeats", "remove", &id])?.trim(), format!("{id} removed"));
    for command in ["pause", "resume", "remove"] {
        let gone = user.run(&["heartbeats", command, "hb_0"])?;
        assert_snapshot!("heartbeat_03_gone", gone);
    }
    let wrong = |more: &[&str]| user.run(&[&["heartbeats", "add", "noop"], more].concat());
    assert_snapshot!("heartbeat_04_often", wrong(&["--watch", ADDRESS, "--every", "0"])?);
    assert_snapshot!("heartbeat_05_address", wrong(&["--watch", "ftp://x", "--every", "60"])?);
    Ok(())
}
