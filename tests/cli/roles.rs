//! Roles and keys from a terminal: set, given, listed, removed; a key for another tenant; a grace; the file's roles.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::terminal::Terminal;

fn json(at: &Terminal, args: &[&str]) -> Result<Value> {
    let output = at.command(args).output()?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_role_is_set_given_and_removed_and_the_file_has_its_own() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("callboard.toml", "[roles.finance]\nscopes = [\"runs:read\"]\n")?;
    let host = terminal.host(&[])?;
    let at = terminal.at(host.url());
    let set = at.run(&["roles", "set", "desk", "--scope", "runs:read", "--scope", "admin"])?;
    ensure!(set.starts_with("exit: 0\n") && set.contains("role desk set"), "{set}");
    let listed = at.run(&["roles", "list"])?;
    for part in ["desk", "stored", "finance", "configured", "viewer", "protocol"] {
        ensure!(listed.contains(part), "{part}: {listed}");
    }
    let key = json(&at, &["keys", "create", "--name", "n", "--role", "desk", "--json"])?;
    let text = key["key"].as_str().context("a key")?;
    let who = at.run(&["keys", "whoami", "--api-key", text])?;
    ensure!(who.contains("may: admin runs:read"), "{who}");
    let refused = at.run(&["roles", "set", "wide", "--scope", "runs:create", "--api-key", text])?;
    ensure!(refused.contains("lacks the scope runs:create"), "{refused}");
    let reserved = at.run(&["roles", "remove", "finance"])?;
    ensure!(reserved.contains("role_reserved"), "{reserved}");

    // A reload reads the file's roles again.
    terminal.write("callboard.toml", "[roles.other]\nscopes = [\"*\"]\n")?;
    let reloaded = at.run(&["reload"])?;
    ensure!(reloaded.starts_with("exit: 0\n"), "{reloaded}");
    let listed = at.run(&["roles", "list"])?;
    ensure!(listed.contains("other") && !listed.contains("finance"), "{listed}");
    let removed = at.run(&["roles", "remove", "desk"])?;
    ensure!(removed.contains("desk removed"), "{removed}");
    let refused = at.run(&["keys", "list", "--api-key", text])?;
    ensure!(refused.contains("forbidden"), "{refused}");
    Ok(())
}

#[test]
fn an_operator_makes_a_key_for_another_tenant_and_replaces_it_with_a_grace() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let at = terminal.at(host.url());
    let make =
        ["keys", "create", "--name", "n", "--tenant", "acme", "--workspace", "ops", "--json"];
    let made = json(&at, &make)?;
    let (id, text) = (made["id"].as_str().context("id")?, made["key"].as_str().context("key")?);
    let who = json(&at, &["keys", "whoami", "--json", "--api-key", text])?;
    ensure!(who["tenant"] == "acme" && who["workspace"] == "ops", "{who}");
    let listed = at.run(&["keys", "list", "--tenant", "acme"])?;
    ensure!(listed.contains("LAST USED") && listed.contains("valid"), "{listed}");
    let refused = at.run(&["keys", "list", "--tenant", "default", "--api-key", text])?;
    ensure!(refused.contains("tenants:manage"), "{refused}");
    let rotated = at.run(&["keys", "rotate", id, "--tenant", "acme", "--grace", "1h"])?;
    ensure!(rotated.contains("works until"), "{rotated}");
    let who = at.run(&["keys", "whoami", "--api-key", text])?;
    ensure!(who.starts_with("exit: 0\n"), "{who}");
    let wrong = at.run(&["keys", "rotate", id, "--grace", "soon"])?;
    ensure!(wrong.starts_with("exit: 2\n") && wrong.contains("no length of time"), "{wrong}");
    let revoked = at.run(&["keys", "revoke", id, "--tenant", "acme"])?;
    ensure!(revoked.contains("revoked"), "{revoked}");
    let who = at.run(&["keys", "whoami", "--api-key", text])?;
    ensure!(who.contains("key_revoked"), "{who}");
    Ok(())
}
