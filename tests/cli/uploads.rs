//! What is too large for a host is said to be that, however it was cut off.

use std::io::{Read, Write};
use std::net::TcpListener;

use anyhow::Result;
use serde_json::json;

use crate::terminal::Terminal;

/// A definition of so many bytes and some more.
fn definition(bytes: usize) -> String {
    json!({
        "id": "large", "name": "large", "version": "1.0", "description": "x".repeat(bytes),
        "nodes": [{ "id": "only", "typeId": "core.noop", "name": "only", "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": {} }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
    .to_string()
}

#[test]
fn a_request_that_is_too_large_is_called_that() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    for bytes in [5_000_000, 20_000_000, 60_000_000] {
        terminal.write("large.json", &definition(bytes))?;
        let said = user.run(&["workflows", "apply", "large.json"])?;
        assert!(said.starts_with("exit: 1\n"), "{said}");
        assert!(said.contains("4194304") && said.contains("limits.max_body_bytes"), "{said}");
        assert!(!said.contains("callboard serve"), "the host is there: {said}");
    }
    Ok(())
}

/// A host that hangs up without an answer, as one behind a strict proxy does: what it says of itself tells why.
#[test]
fn a_connection_that_is_cut_while_sending_is_no_missing_host() -> Result<()> {
    let terminal = Terminal::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut bytes = [0; 1024];
            let count = socket.read(&mut bytes).unwrap_or(0);
            if bytes[..count].starts_with(b"GET /.well-known/openwop") {
                let body = r#"{"limits":{"maxRequestBodyBytes":1000}}"#;
                let _ = write!(
                    socket,
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
            // Everything else ends here, with most of it unread.
        }
    });
    terminal.write("large.json", &definition(5_000_000))?;
    let said = terminal.at(&address).run(&["workflows", "apply", "large.json"])?;
    assert!(said.starts_with("exit: 1\n"), "{said}");
    assert!(said.contains("too large for this host") && said.contains("limit 1000"), "{said}");
    Ok(())
}
