//! A provider, or a proxy before it, that repeats the operator's key wherever it can: nobody else learns it.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::support::host::{Host, serve};

/// Put together at run time, so that scanners of source code have nothing to find. Nothing in it looks like a credential:
/// it must be known to be found.
fn canary() -> String {
    ["operator", "CANARY", "0aB8mYjPpQe7", "Zq"].join(".")
}

/// Where webhooks are delivered to, at the same address.
const HOOK: &str = "/hook";
/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was delivered, with its head.
type Delivered = Arc<Mutex<Vec<String>>>;

/// Answers a task that holds `fail` with an error, and every other one with words; both hold the key that it was shown.
/// Takes webhooks, too.
fn listen() -> Result<(String, Delivered)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let delivered = Delivered::default();
    let sink = Arc::clone(&delivered);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            // A client that goes away is no concern of a server.
            let _ = serve_one(socket, &sink);
        }
    });
    Ok((address, delivered))
}

/// Waits for the delivery of an event of this kind; answers all that came until then.
async fn told_of(delivered: &Delivered, kind: &str) -> Result<Vec<String>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = delivered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if seen.iter().any(|delivery| delivery.contains(kind)) {
            return Ok(seen);
        }
        ensure!(Instant::now() < deadline, "nobody was told of {kind}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn serve_one(socket: TcpStream, delivered: &Delivered) -> Result<()> {
    let mut reader = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(reader.read_line(&mut head)? > 0);
    }
    let field = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map_or("", |(_, value)| value.trim()).to_owned()
    };
    let key = field("x-api-key");
    let mut body = vec![0; field("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body);
    if head.starts_with(&format!("POST {HOOK} ")) {
        let mut delivered = delivered.lock().unwrap_or_else(PoisonError::into_inner);
        delivered.push(format!("{head}{body}"));
        return Ok(write!(reader.get_mut(), "HTTP/1.1 204 OK\r\nconnection: close\r\n\r\n")?);
    }
    let fails = body.contains("fail");
    let (status, kind, text) = match fails {
        true => (400, "application/json", error(&key)),
        false => (200, "text/event-stream", said(&key)),
    };
    let socket = reader.get_mut();
    write!(socket, "HTTP/1.1 {status} {key}\r\ncontent-type: {kind}\r\nrequest-id: {key}\r\n")?;
    write!(socket, "x-echo: {key}\r\nretry-after: {key}\r\ncontent-length: {}\r\n", text.len())?;
    write!(socket, "connection: close\r\n\r\n{text}")?;
    Ok(())
}

fn error(key: &str) -> String {
    let message = format!("the key {key} is not valid for this");
    json!({ "type": "error", "error": { "type": key, "message": message } }).to_string()
}

/// Three times the key: whole, in two pieces, and byte by byte.
fn said(key: &str) -> String {
    let mut pieces = vec![format!("whole {key}, two "), key[..7].to_owned(), key[7..].to_owned()];
    pieces.push(", many ".to_owned());
    pieces.extend(key.chars().map(String::from));
    pieces.push(" end".to_owned());
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let message = json!({ "id": key, "model": key, "role": "assistant", "usage": usage });
    let text = json!({ "type": "text", "text": "" });
    let mut frames = vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": text }),
    ];
    frames.extend(pieces.iter().map(|piece| {
        let delta = json!({ "type": "text_delta", "text": piece });
        json!({ "type": "content_block_delta", "index": 0, "delta": delta })
    }));
    let stop = json!({ "stop_reason": "end_turn" });
    frames.push(json!({ "type": "content_block_stop", "index": 0 }));
    frames.push(json!({ "type": "message_delta", "delta": stop, "usage": { "output_tokens": 3 } }));
    frames.push(json!({ "type": "message_stop" }));
    let frame = |frame: &Value| {
        format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap_or_default())
    };
    frames.iter().map(frame).collect()
}

fn pack(folder: &Path) -> Result<()> {
    let agent = json!({ "agentId": "vendor.acme.desk.writer", "persona": "Writer",
        "modelClass": "writing", "systemPrompt": "You write.", "toolAllowlist": [] });
    let manifest = json!({ "name": "vendor.acme.desk", "version": "1.0.0", "agents": [agent],
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "runtime": { "language": "remote", "entry": "pack.json" } });
    fs::create_dir(folder)?;
    Ok(fs::write(folder.join("pack.json"), manifest.to_string())?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_key_is_in_nothing_that_the_host_tells() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, canary) = (folder.path().join("data"), canary());
    pack(&folder.path().join("pack"))?;
    let mut command = serve(&data);
    command.args(["--log", "trace", "--packs"]).arg(folder.path().join("pack"));
    command.args(["--api-key", crate::support::host::KEY, "--allow-private-egress"]);
    let (address, delivered) = listen()?;
    command.env("ANTHROPIC_BASE_URL", &address).env("ANTHROPIC_API_KEY", &canary);
    command.env("CALLBOARD_MODEL", "anthropic/claude-sonnet-4-5");
    let host = Host::of(command)?;
    let api = Api::of(host.url())?;
    let webhook = json!({ "url": format!("{address}{HOOK}"), "events": ["*"] });
    let made = api.post("/v1/webhooks", &webhook).send().await?;
    ensure!(made.status() == 201, "{}", made.text().await?);
    let mut seen = Vec::new();
    for (task, end) in [("write", "completed"), ("fail", "failed")] {
        let body = json!({ "agentId": "vendor.acme.desk.writer", "inputs": { "text": task } });
        let run = api.create(&body, task).await?;
        let status = api.finish(&run).await?;
        for path in [
            "",
            "/events?streamMode=debug",
            "/events?streamMode=messages",
            "/events?streamMode=values",
            "/events/poll?timeout=1",
            "/debug-bundle",
        ] {
            seen.push(api.get(&format!("/v1/runs/{run}{path}")).await?);
        }
        ensure!(status == end, "{}", seen[seen.len() - 2]);
    }
    seen.push(api.get("/metrics").await?);
    ensure!(seen[4].contains("[REDACTED:host]"), "the key was not told: {}", seen[4]);
    seen.push(host.log());
    let delivered = told_of(&delivered, "run.failed").await?;
    ensure!(delivered.iter().any(|told| told.contains("[REDACTED:host]")), "{delivered:?}");
    seen.extend(delivered);
    for text in &seen {
        ensure!(!text.contains(&canary), "{text}");
        // Nor a part of it, from which the rest could be told.
        ensure!(!text.contains(&canary[9..]) && !text.contains("YjPpQe7"), "{text}");
    }
    search(&data, &canary)?;
    host.stop("TERM")?;
    search(&data, &canary)
}

fn search(folder: &Path, canary: &str) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            let holds = bytes.windows(canary.len()).any(|part| part == canary.as_bytes());
            ensure!(!holds, "it is in {}", path.display());
        }
    }
    Ok(())
}
