//! `callboard doctor` about what a host would stand on here.

use std::io::{Read, Write};
use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};

use crate::terminal::Terminal;

/// What `doctor` prints with these variables, and how it ends.
fn doctor(variables: &[(&str, &str)]) -> Result<(String, Option<i32>)> {
    let terminal = Terminal::new()?;
    let output = terminal.command(&["doctor"]).envs(variables.iter().copied()).output()?;
    Ok((String::from_utf8(output.stdout)?, output.status.code()))
}

/// Where no host would start, nobody is told that all is well.
#[test]
fn a_database_that_is_not_there_is_found_before_the_start() -> Result<()> {
    let url = "postgres://callboard:correct-horse@127.0.0.1:1/callboard";
    let (shown, code) = doctor(&[("CALLBOARD_DATABASE_URL", url)])?;
    ensure!(code == Some(1), "{shown}");
    ensure!(
        shown.contains("✗ database       the database 127.0.0.1:1/callboard cannot be reached"),
        "{shown}"
    );
    ensure!(!shown.contains("correct-horse"), "a password: {shown}");
    Ok(())
}

/// An Ollama with one model, for as long as the test runs.
fn ollama() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let body = r#"{"models": [{"name": "qwen3:latest", "model": "qwen3:latest"}]}"#;
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    Ok(format!("http://{address}"))
}

#[test]
fn a_model_that_the_provider_does_not_have_is_not_ticked() -> Result<()> {
    let ollama = ollama()?;
    for (model, line, code) in [
        ("ollama/qwen3", "✓ models         ollama/qwen3", 0),
        ("ollama/qwen9", "✗ models         ollama does not have qwen9", 1),
    ] {
        let (shown, ended) = doctor(&[("OLLAMA_HOST", &ollama), ("CALLBOARD_MODEL", model)])?;
        ensure!(shown.contains(line), "{model}: {shown}");
        ensure!(ended == Some(code), "{model}: {shown}");
    }
    Ok(())
}

#[test]
fn an_mcp_server_that_is_missing_is_named() -> Result<()> {
    let terminal = Terminal::new()?;
    let file = "[mcp.servers.gone]\ncommand = [\"/nowhere/gone\"]\n";
    terminal.write("callboard.toml", file)?;
    let seen = terminal.run(&["doctor"])?;
    let line = "! MCP server     gone: /nowhere/gone cannot be started";
    assert!(seen.contains(line), "{seen}");
    Ok(())
}

#[test]
fn it_goes_no_further_than_the_host_would() -> Result<()> {
    let terminal = Terminal::new()?;
    let file = "[mcp.servers.near]\nurl = \"http://127.0.0.1:1/mcp\"\n";
    terminal.write("callboard.toml", file)?;
    let seen = |egress: &str| -> Result<String> {
        let mut doctor = terminal.command(&["doctor"]);
        let output = doctor.env("CALLBOARD_ALLOW_PRIVATE_EGRESS", egress).output()?;
        let lines = String::from_utf8(output.stdout)?;
        let line = lines.lines().find(|line| line.contains("MCP server"));
        Ok(line.context("a line for the server")?.to_owned())
    };
    let (refused, tried) = (seen("off")?, seen("on")?);
    assert_ne!(refused, tried);
    assert_eq!(refused, seen("no")?);
    assert_eq!(refused, seen("False")?);
    Ok(())
}
