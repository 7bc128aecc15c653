//! `callboard agents deploy` as its user sees it.

use anyhow::{Result, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

const ONE: &str = "vendor.acme.desk.assistant@0.1.0";
const TWO: &str = "vendor.acme.desk.assistant@0.2.0";

#[test]
fn a_version_is_promoted_tried_and_rolled_back() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.output(&["packs", "new", "vendor.acme.desk", "--dir", "desk"])?;
    let host = terminal.host(&["--api-key", "pauser=default+deploy:pause"])?;
    let user = terminal.at(host.url());
    user.output(&["packs", "install", "desk", "--allow-unsigned"])?;
    let manifest = terminal.read("desk/pack.json")?;
    terminal.write("desk/pack.json", &manifest.replace("\"0.1.0\"", "\"0.2.0\""))?;
    user.output(&["packs", "install", "desk", "--allow-unsigned"])?;

    let deploy = |name: &str, arguments: &[&str]| -> Result<()> {
        assert_snapshot!(name, user.run(&[&["agents", "deploy"], arguments].concat())?);
        Ok(())
    };
    deploy("01_drafts", &["list", "vendor.acme.desk.assistant"])?;
    deploy("02_one_step", &["promote", ONE])?;
    deploy("03_all_the_way", &["promote", ONE, "--channel", "stable"])?;
    deploy("04_canary", &["promote", TWO, "--channel", "stable", "--percent", "10"])?;
    deploy("05_list", &["list", "vendor.acme.desk.assistant"])?;
    deploy("06_grow", &["canary", TWO, "--percent", "100"])?;
    deploy("07_pause", &["pause", TWO])?;
    deploy("08_pause_again", &["pause", TWO])?;
    deploy("09_resume", &["resume", TWO])?;
    deploy("10_rollback", &["rollback", TWO, "--reason", "error-rate"])?;
    deploy("11_never_again", &["promote", TWO, "--channel", "stable"])?;
    deploy("12_unknown_channel", &["promote", ONE, "--channel", "nightly"])?;
    deploy("13_unknown_agent", &["list", "vendor.acme.desk.nobody"])?;
    deploy("14_json", &["deprecate", ONE, "--json"])?;
    deploy("15_not_allowed", &["rollback", ONE, "--api-key", "pauser"])?;

    let told = user.output(&["runs", "list", "--workflow", "callboard-deployment", "--json"])?;
    let told: Value = serde_json::from_str(&told)?;
    ensure!(told["runs"].as_array().is_some_and(|runs| runs.len() == 11), "{told}");
    let log = host.log();
    ensure!(log.contains("deployment changed") && log.contains("deployment refused"), "{log}");
    Ok(())
}
