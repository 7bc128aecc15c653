//! A model and a tool server on this machine: they count what reaches them, and hold an answer back if a test wants that.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};

/// Reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What has come in so far.
#[derive(Debug, Default)]
struct Seen {
    turns: Vec<Value>,
    /// The idempotency keys of the turns.
    keys: Vec<String>,
    uses: Vec<Value>,
    /// The path whose next request gets no answer.
    held: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Outside {
    address: String,
    seen: Arc<Mutex<Seen>>,
}

/// The paths of the model and of the tool server.
pub(crate) const MODEL: &str = "/v1/chat/completions";
pub(crate) const TOOLS: &str = "/mcp";

impl Outside {
    /// Listens until the test ends.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}", listener.local_addr()?);
        let outside = Self { address, seen: Arc::default() };
        let ours = outside.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let ours = ours.clone();
                // A client that goes away is no concern of a server.
                std::thread::spawn(move || ours.serve(socket));
            }
        });
        Ok(outside)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many turns were asked for, and how often the tool was used.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let seen = self.seen();
        (seen.turns.len(), seen.uses.len())
    }

    pub(crate) fn turns(&self) -> Vec<Value> {
        self.seen().turns.clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.seen().keys.clone()
    }

    /// The next call of a tool, or turn, at this path gets no answer.
    pub(crate) fn hold(&self, path: &'static str) {
        self.seen().held = Some(path);
    }

    /// Waits until the request has come that gets no answer.
    pub(crate) async fn until_held(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.seen().held.is_some() {
            if Instant::now() > deadline {
                bail!("nothing came in");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn serve(&self, socket: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let field = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
            found.next().map_or("", |(_, value)| value.trim()).to_owned()
        };
        let mut body = vec![0; field("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let socket = reader.get_mut();
        if !self.take_in(&path, &body, field("idempotency-key")) {
            // Held until the other side is gone.
            let _ = socket.read(&mut [0]);
            return Ok(());
        }
        let (status, kind, text) = match path.as_str() {
            MODEL => (200, "text/event-stream", turn(&body)),
            TOOLS if body["id"].is_null() => (202, "application/json", String::new()),
            TOOLS => (200, "application/json", tool_answer(&body).to_string()),
            _ => (404, "application/json", "{}".to_owned()),
        };
        write!(socket, "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\n")?;
        write!(socket, "content-length: {}\r\nconnection: close\r\n\r\n{text}", text.len())?;
        Ok(())
    }

    /// Notes what came in. Answers whether it is to be answered.
    fn take_in(&self, path: &str, body: &Value, key: String) -> bool {
        let mut seen = self.seen();
        match path {
            MODEL => {
                seen.turns.push(body.clone());
                seen.keys.push(key);
            }
            TOOLS if body["method"] == "tools/call" => seen.uses.push(body["params"].clone()),
            _ => return true,
        }
        let is_held = seen.held == Some(path);
        seen.held = seen.held.filter(|_| !is_held);
        !is_held
    }
}

/// Uses the tool twice, once in each of two turns, and answers in the third.
fn turn(request: &Value) -> String {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let results = messages.iter().filter(|message| message["role"] == "tool").count();
    let (delta, reason) = match request["tools"][0]["function"]["name"].as_str() {
        Some(tool) if results < 2 => {
            let arguments = json!({ "n": results }).to_string();
            let function = json!({ "name": tool, "arguments": arguments });
            let call = json!({ "index": 0, "id": format!("call_{results}"), "type": "function", "function": function });
            (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
        }
        _ => (json!({ "role": "assistant", "content": "{\"queue\":\"fire\"}" }), "stop"),
    };
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny",
            "choices": choices, "usage": usage,
        });
        format!("data: {chunk}\n\n")
    };
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let said = json!([{ "index": 0, "delta": delta, "finish_reason": null }]);
    let end = json!([{ "index": 0, "delta": {}, "finish_reason": reason }]);
    let frames = [chunk(said, Value::Null), chunk(end, Value::Null), chunk(json!([]), usage)];
    frames.concat() + "data: [DONE]\n\n"
}

fn tool_answer(message: &Value) -> Value {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "desk", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{
            "name": "post", "description": "Posts.",
            "inputSchema": { "type": "object", "properties": { "n": { "type": "integer" } } },
        }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "posted" }] }),
        _ => json!({}),
    };
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
}
