//! What a host is configured with, and where that comes from.

use std::io::{Read, Write};
use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::host::{Host, serve};
use crate::terminal::Terminal;

const FILE: &str = "\
[server]
listen = \"127.0.0.1:4444\"
data = \"kept\"
lease_ms = 20000
log = \"warn\"

[limits]
inflight = 77

[mcp.servers.a]
command = [\"a\"]
env = { TOKEN = \"hunter2-in-the-file\" }
";

fn shown(terminal: &Terminal, flags: &[&str], variables: &[(&str, &str)]) -> Result<Value> {
    let mut command = terminal.command(&[&["config", "show", "--json"], flags].concat());
    let output = command.envs(variables.iter().copied()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    ensure!(!text.contains("hunter2"), "a secret: {text}");
    Ok(serde_json::from_str(&text)?)
}

fn value(shown: &Value, key: &str) -> Result<(Value, String)> {
    let values = shown["values"].as_array().context("values")?;
    let found: Vec<_> = values.iter().filter(|it| it["key"] == key).collect();
    ensure!(found.len() == 1, "{key}: {found:?}");
    let origin = found[0]["origin"].as_str().unwrap_or_default();
    Ok((found[0]["value"].clone(), origin.to_owned()))
}

#[test]
fn every_value_says_where_it_comes_from_and_secrets_are_hidden() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("callboard.toml", FILE)?;
    terminal.write("keys", "hunter2-first=acme\nhunter2-second\n")?;
    let variables = [
        ("CALLBOARD_LEASE_MS", "40000"),
        ("CALLBOARD_API_KEYS_FILE", "keys"),
        ("DATABASE_URL", "postgres://u:hunter2@db/callboard"),
        ("ANTHROPIC_API_KEY", "hunter2"),
        ("CALLBOARD_MODEL", "scripted"),
        ("CALLBOARD_SEAL_KEY", "hunter2"),
        ("LOG_JSON", "true"),
        ("PORT", "5555"),
    ];
    let found = shown(&terminal, &["--heartbeat", "9000"], &variables)?;
    for (key, expected, origin) in [
        // The environment over the file, also by a name that others use.
        ("server.listen", json!("127.0.0.1:5555"), "PORT"),
        ("server.lease_ms", json!(40000), "CALLBOARD_LEASE_MS"),
        ("server.heartbeat_ms", json!(9000), "--heartbeat"),
        ("server.data", json!("kept"), "callboard.toml"),
        ("server.log", json!("warn"), "callboard.toml"),
        ("server.log_format", json!("json"), "LOG_JSON"),
        ("server.api_keys", json!(["…", "…"]), "CALLBOARD_API_KEYS_FILE"),
        ("server.database_url", json!("postgres://u:…@db/callboard"), "DATABASE_URL"),
        ("server.test_seams", json!(false), "default"),
        ("limits.inflight", json!(77), "callboard.toml"),
        ("limits.connections", json!(8192), "default"),
        ("models.coding", json!("scripted/scripted"), "CALLBOARD_MODEL"),
        ("providers.anthropic.api_key", json!("…"), "ANTHROPIC_API_KEY"),
        ("mcp.servers.a.env", json!({ "TOKEN": "…" }), "callboard.toml"),
        ("CALLBOARD_SEAL_KEY", json!("…"), "CALLBOARD_SEAL_KEY"),
    ] {
        assert_eq!(value(&found, key)?, (expected, origin.to_owned()), "{key}");
    }
    Ok(())
}

#[test]
fn names_of_other_tools_count_last_and_a_flag_first() -> Result<()> {
    let terminal = Terminal::new()?;
    let others = [("PORT", "5555"), ("LOG_LEVEL", "WARNING"), ("DATABASE_URL", "postgres://x/y")];
    let flags = ["--listen", "127.0.0.1:1", "--log", "debug", "--database-url", "sqlite"];
    let found = shown(&terminal, &flags, &others)?;
    assert_eq!(value(&found, "server.listen")?, (json!("127.0.0.1:1"), "--listen".to_owned()));
    assert_eq!(value(&found, "server.log")?.1, "--log");
    assert_eq!(value(&found, "server.database_url")?.0, json!("sqlite"));
    let mut table = terminal.command(&[&["config", "show"], &flags[..]].concat());
    let output = table.envs(others).output()?;
    let said = String::from_utf8(output.stderr)?;
    for (name, _) in others {
        ensure!(said.contains(&format!("{name} is set and not used")), "{name}: {said}");
    }
    // An address alone leaves the port to the platform.
    let found = shown(&terminal, &["--listen", "0.0.0.0"], &others)?;
    assert_eq!(value(&found, "server.listen")?.0, json!("0.0.0.0:5555"));
    Ok(())
}

#[test]
fn what_cannot_be_understood_is_refused_without_being_repeated() -> Result<()> {
    let terminal = Terminal::new()?;
    for (variables, expected) in [
        (&[("PORT", "hunter2")] as &[_], "PORT must be a port"),
        (&[("LOG_LEVEL", "hunter2")], "LOG_LEVEL must be trace"),
        (&[("LOG_JSON", "hunter2")], "LOG_JSON must be true or false"),
        (
            &[("DATABASE_URL", "mysql://hunter2@h/n")],
            "DATABASE_URL does not begin with postgres://",
        ),
        (&[("CALLBOARD_LEASE_MS", "hunter2")], "CALLBOARD_LEASE_MS must be a whole number"),
        (&[("CALLBOARD_API_KEYS_FILE", "missing")], "CALLBOARD_API_KEYS_FILE: cannot read missing"),
        (
            &[("CALLBOARD_SEAL_KEY", "hunter2"), ("CALLBOARD_SEAL_KEY_FILE", "missing")],
            "CALLBOARD_SEAL_KEY and CALLBOARD_SEAL_KEY_FILE are both set",
        ),
    ] {
        let output = terminal.command(&["serve"]).envs(variables.iter().copied()).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(
            output.status.code() == Some(2) && said.contains(expected),
            "{variables:?}: {said}"
        );
        ensure!(!said.contains("hunter2"), "a secret: {said}");
    }
    Ok(())
}

#[test]
fn a_check_names_every_file_that_a_start_would_leave_out() -> Result<()> {
    let terminal = Terminal::new()?;
    let good = terminal.run(&["config", "check", "--workflows", "workflows"])?;
    ensure!(good.starts_with("exit: 0\n"), "{good}");
    terminal.write("workflows/broken.yaml", "id: broken\nnodes:\n  - id: 7\n    typo: x\n")?;
    terminal.write("workflows/torn.json", "{ \"id\": ")?;
    let found = terminal.run(&["config", "check", "--workflows", "workflows"])?;
    ensure!(found.starts_with("exit: 1\n"), "{found}");
    ensure!(found.contains("workflows/broken.yaml: 3:") && found.contains("torn.json"), "{found}");
    terminal.write("callboard.toml", "[limits]\n\ninflght = 1\n")?;
    let found = terminal.run(&["config", "check", "--json"])?;
    ensure!(
        found.starts_with("exit: 1\n") && found.contains("callboard.toml:3: unknown key"),
        "{found}"
    );
    Ok(())
}

/// Whatever a flag can say, the file can.
#[test]
fn a_host_starts_from_its_file_alone() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("keys", "cbtest_everything\n")?;
    let file = "[server]\nlisten = \"127.0.0.1:0\"\ndata = \"kept\"\nworkflows = [\"workflows\"]\n\
                api_keys_file = \"keys\"\ntest_seams = true\n";
    terminal.write("callboard.toml", file)?;
    let mut command = serve(&terminal.folder().join("unused"));
    command.env_remove("CALLBOARD_LISTEN");
    // Without the flag that `serve` sets, in another folder than the file's.
    let mut alone = std::process::Command::new(command.get_program());
    alone.env_clear().arg("serve").arg("--config").arg(terminal.folder().join("callboard.toml"));
    alone.current_dir("/").stdin(std::process::Stdio::null());
    alone.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let host = Host::of(alone)?;
    ensure!(terminal.folder().join("kept/callboard.db").exists());
    let at = terminal.at(host.url());
    let ended = at.run(&["run", "noop", "--follow"])?;
    ensure!(ended.starts_with("exit: 0\n"), "{ended}");
    let ready = at.run(&["health"])?;
    ensure!(ready.starts_with("exit: 0\n--- stdout\nready\n"), "{ready}");
    Ok(())
}

/// A host whose database is away, as far as a client can tell.
fn unready() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let body = r#"{"error":"service_unavailable","message":"this host is not ready"}"#;
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    Ok(format!("http://{address}"))
}

#[test]
fn health_is_one_exit_code() -> Result<()> {
    let terminal = Terminal::new()?;
    let away = terminal.run(&["health", "--url", "http://127.0.0.1:1"])?;
    ensure!(away.starts_with("exit: 5\n"), "{away}");
    let unready = terminal.run(&["health", "--url", &unready()?])?;
    ensure!(unready.starts_with("exit: 1\n") && unready.contains("not ready"), "{unready}");
    Ok(())
}
