//! `callboard packs` as its author and its user see it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use crate::terminal::Terminal;

/// The published packs; none, with a line that says so, where they are missing and not required.
fn registry() -> Result<Option<String>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/openwop/registry");
    if Path::new(folder).is_dir() {
        return Ok(Some(folder.to_owned()));
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    ensure!(
        !required.split(',').any(|part| part.trim() == "openwop"),
        "openwop is required and not there"
    );
    std::io::stderr().write_all(b"skipped: the published packs are not at ../shared/openwop\n")?;
    Ok(None)
}

#[test]
fn from_nothing_to_a_signed_pack() -> Result<()> {
    let terminal = Terminal::new()?;
    let snap = |name: &str, arguments: &[&str]| -> Result<()> {
        // The key is new every time, and so is whatever it signs.
        let shown = terminal.run(arguments)?;
        let shown = regex::Regex::new(r"ed25519-[0-9a-f]{16}")?.replace_all(&shown, "[key-id]");
        let shown = regex::Regex::new(r"sha256-\S+")?.replace_all(&shown, "[digest]").into_owned();
        assert_snapshot!(name, shown);
        Ok(())
    };
    snap("new", &["packs", "new", "vendor.acme.desk", "--dir", "desk"])?;
    snap("new_again", &["packs", "new", "vendor.acme.desk", "--dir", "desk"])?;
    snap("new_misnamed", &["packs", "new", "acme.desk", "--dir", "other"])?;
    snap("verify_folder", &["packs", "verify", "desk"])?;
    snap("pack", &["packs", "pack", "desk", "--out", "desk.tgz"])?;
    snap("verify_unsigned", &["packs", "verify", "desk.tgz"])?;
    snap("sign_without_key", &["packs", "sign", "desk.tgz", "--key", "acme.key"])?;
    snap("sign", &["packs", "sign", "desk.tgz", "--key", "acme.key", "--generate"])?;
    snap("sign_over_key", &["packs", "sign", "desk.tgz", "--key", "acme.key", "--generate"])?;
    snap("verify_stranger", &["packs", "verify", "desk.tgz"])?;
    snap("verify_signed", &["packs", "verify", "desk.tgz", "--trust", "acme.key.pub"])?;
    let key = terminal.folder().join("acme.key");
    assert_eq!(std::fs::metadata(key)?.permissions().mode() & 0o777, 0o600);
    let again = ["packs", "pack", "desk", "--out", "again.tgz", "--json"];
    let made = |arguments: &[&str]| -> Result<Value> {
        Ok(serde_json::from_str(&terminal.output(arguments)?)?)
    };
    let (first, second) = (made(&again)?, made(&again)?);
    assert!(first["integrity"].is_string(), "{first}");
    assert_eq!(first, second);
    let signed = made(&["packs", "sign", "again.tgz", "--key", "acme.key", "--json"])?;
    assert!(signed["keyId"].is_string(), "{signed}");
    let new = made(&["packs", "new", "vendor.acme.two", "--dir", "two", "--json"])?;
    assert_eq!(new["name"], "vendor.acme.two");
    Ok(())
}

#[test]
fn a_broken_pack_says_where_and_what_to_do() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.output(&["packs", "new", "vendor.acme.desk", "--dir", "desk"])?;
    let manifest = terminal.read("desk/pack.json")?;
    terminal
        .write("desk/pack.json", &manifest.replace("prompts/assistant.md", "../assistant.md"))?;
    assert_snapshot!("broken", terminal.run(&["packs", "pack", "desk", "--out", "desk.tgz"])?);
    ensure!(!terminal.folder().join("desk.tgz").exists());
    assert_snapshot!("missing", terminal.run(&["packs", "verify", "nothing.tgz"])?);
    Ok(())
}

#[test]
fn all_published_packs_are_proven() -> Result<()> {
    let Some(registry) = registry()? else { return Ok(()) };
    let terminal = Terminal::new()?;
    let all = terminal.run(&["packs", "verify", "--all", "--registry", &registry])?;
    assert_snapshot!("verify_all", all);
    let found: Value = serde_json::from_str(&terminal.output(&[
        "packs",
        "verify",
        "--all",
        "--registry",
        &registry,
        "--json",
    ])?)?;
    assert_eq!((&found["proven"], &found["installable"]), (&24.into(), &23.into()));
    let refused = found["packs"].as_array().context("packs")?.iter();
    let refused = refused.filter(|pack| pack["installs"] == false);
    assert!(refused.clone().all(|pack| pack["requiredCapability"].is_string()));
    assert_eq!(refused.count(), 1);
    Ok(())
}

#[test]
fn a_yanked_version_is_refused() -> Result<()> {
    let Some(registry) = registry()? else { return Ok(()) };
    let terminal = Terminal::new()?;
    let verify = |pack: &str| terminal.run(&["packs", "verify", pack, "--registry", &registry]);
    assert_snapshot!("verify_yanked", verify("core.openwop.agents.react@1.0.0")?);
    assert_snapshot!("verify_latest", verify("core.openwop.agents.react")?);
    assert_snapshot!("verify_unknown", verify("core.openwop.agents.nobody")?);
    Ok(())
}

#[test]
fn a_pack_is_installed_listed_and_removed() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.output(&["packs", "new", "vendor.acme.desk", "--dir", "desk"])?;
    terminal.output(&["packs", "pack", "desk", "--out", "desk.tgz"])?;
    terminal.output(&[
        "packs",
        "sign",
        "desk.tgz",
        "--key",
        "acme.key",
        "--generate",
        "--key-id",
        "acme-1",
    ])?;
    let key = terminal.read("acme.key.pub")?;
    let config = format!(
        "[[packs.keys]]\nid = \"acme-1\"\nnamespaces = [\"vendor.acme.*\"]\nkey = \"\"\"\n{key}\"\"\"\n"
    );
    terminal.write("trusting.toml", &config)?;
    let trusting = terminal.folder().join("trusting.toml");
    let trusting = trusting.to_str().context("a plain path")?;
    let host = terminal.host(&["--config", trusting])?;
    let user = terminal.at(host.url());
    assert_snapshot!("host_1_nothing", user.run(&["packs", "list"])?);
    assert_snapshot!("host_2_unsigned", user.run(&["packs", "install", "desk"])?);
    assert_snapshot!("host_3_installed", user.run(&["packs", "install", "desk.tgz"])?);
    assert_snapshot!("host_4_list", user.run(&["packs", "list"])?);
    assert_snapshot!(
        "host_5_conflict",
        user.run(&["packs", "install", "desk", "--allow-unsigned"])?
    );
    assert_snapshot!(
        "host_6_registry",
        user.run(&["packs", "install", "vendor.acme.desk", "--registry", "http://127.0.0.1:1"])?
    );
    host.stop("TERM")?;
    let host = terminal.host(&["--config", trusting])?;
    let user = terminal.at(host.url());
    assert_snapshot!("host_7_remove", user.run(&["packs", "remove", "vendor.acme.desk@0.1.0"])?);
    assert_snapshot!("host_8_gone", user.run(&["packs", "remove", "vendor.acme.desk@0.1.0"])?);
    Ok(())
}

#[test]
fn what_a_host_is_given_is_loaded_and_what_is_bad_is_named() -> Result<()> {
    let terminal = Terminal::new()?;
    let starter = concat!(env!("CARGO_MANIFEST_DIR"), "/packs");
    std::fs::create_dir(terminal.folder().join("packs"))?;
    terminal.output(&["packs", "new", "vendor.acme.bad", "--dir", "packs/bad"])?;
    std::fs::remove_file(terminal.folder().join("packs/bad/prompts/assistant.md"))?;
    terminal.output(&["packs", "new", "vendor.acme.loose", "--dir", "loose"])?;
    terminal.output(&["packs", "pack", "loose", "--out", "packs/loose.tgz"])?;
    let own = terminal.folder().join("packs");
    let own = own.to_str().context("a plain path")?;
    let host = terminal.host(&["--packs", starter, "--packs", own])?;
    let log = host.log();
    for part in ["packs/bad", "tarball_entry_missing", "loose.tgz", "pack_signature_unverifiable"] {
        ensure!(log.contains(part), "{part} is not named: {log}");
    }
    let user = terminal.at(host.url());
    assert_snapshot!("given_list", user.run(&["packs", "list"])?);
    assert_snapshot!("given_agents", user.run(&["agents", "list"])?);
    let triager = "community.callboard.starter.triager";
    assert_snapshot!("given_agent", user.run(&["agents", "show", triager])?);
    let definition = user.output(&["agents", "show", triager, "--definition"])?;
    assert!(definition.contains("taskSchema") && definition.contains("prompt"), "{definition}");
    assert_snapshot!("given_nobody", user.run(&["agents", "show", "nobody"])?);
    Ok(())
}
