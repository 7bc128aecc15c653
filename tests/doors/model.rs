//! A model on this machine: it takes its time, sorts what it is given, and is unsure when it is told to be.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

/// Listens until the test ends; answers where.
pub(crate) fn start(takes: Duration) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            // A host that dies is no concern of a model.
            std::thread::spawn(move || serve(socket, takes).ok());
        }
    });
    Ok(address)
}

#[expect(clippy::disallowed_methods, reason = "a model that thinks ends with the test")]
fn serve(socket: TcpStream, takes: Duration) -> Result<()> {
    let mut reader = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(Ok(0), |length| length.trim().parse())?];
    reader.read_exact(&mut body)?;
    std::thread::sleep(takes);
    let is_unsure = String::from_utf8_lossy(&body).contains("unsure");
    let sure = if is_unsure { 0.1 } else { 0.9 };
    let words = said(
        &json!({ "kind": "question", "urgency": "later", "reason": "It asks.", "confidence": sure }),
    );
    let socket = reader.get_mut();
    write!(socket, "HTTP/1.1 200 Said\r\ncontent-type: text/event-stream\r\n")?;
    write!(socket, "content-length: {}\r\nconnection: close\r\n\r\n{words}", words.len())?;
    Ok(())
}

fn said(answer: &Value) -> String {
    let message = json!({ "id": "msg_1", "role": "assistant", "usage": { "input_tokens": 120, "output_tokens": 1 } });
    let delta = json!({ "type": "text_delta", "text": answer.to_string() });
    let frames = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 30 } }),
        json!({ "type": "message_stop" }),
    ];
    let frame = |frame: &Value| {
        format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap_or_default())
    };
    frames.iter().map(frame).collect()
}
