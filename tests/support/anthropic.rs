//! Anthropic on this machine: it knows a few keys and models, and answers whoever shows one of the keys.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

/// The models that there are.
const MODELS: [&str; 2] = ["claude-sonnet-4-5", "claude-opus-4-5"];

/// A turn that was asked for: with which key, of which model.
pub(crate) type Asked = (String, String);

#[derive(Debug, Clone)]
pub(crate) struct Anthropic {
    address: String,
    keys: &'static [&'static str],
    /// What is answered to an accepted question that nobody could object to: words, or a status.
    mood: Arc<Mutex<Result<(), u16>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Anthropic {
    /// Listens until the test ends.
    pub(crate) fn start(keys: &'static [&'static str]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}", listener.local_addr()?);
        let (mood, asked) = (Arc::new(Mutex::new(Ok(()))), Arc::default());
        let server = Self { address, keys, mood, asked };
        let ours = server.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // A client that goes away is no concern of a server.
                let _ = ours.serve(socket);
            }
        });
        Ok(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// From now on every turn comes to this status.
    pub(crate) fn fail_with(&self, status: u16) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = Err(status);
    }

    /// The turns that were answered with words, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        let (status, kind, text) = match self.answer(path, &field("x-api-key"), &body) {
            Ok(words) => (200, "text/event-stream", words),
            Err(status) => (status, "application/json", error(status)),
        };
        let socket = reader.get_mut();
        write!(socket, "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\n")?;
        write!(socket, "content-length: {}\r\nconnection: close\r\n\r\n{text}", text.len())?;
        Ok(())
    }

    fn answer(&self, path: &str, key: &str, body: &[u8]) -> Result<String, u16> {
        if !self.keys.contains(&key) {
            return Err(401);
        }
        match path.strip_prefix("/v1/models") {
            Some("") => return Ok(json!({ "data": [] }).to_string()),
            Some(model) => {
                let is_known = MODELS.contains(&model.trim_start_matches('/'));
                return if is_known { Ok("{}".to_owned()) } else { Err(404) };
            }
            None => {}
        }
        let request: Value = serde_json::from_slice(body).map_err(|_| 400_u16)?;
        let model = request["model"].as_str().unwrap_or_default();
        if !MODELS.contains(&model) {
            return Err(404);
        }
        (*self.mood.lock().unwrap_or_else(PoisonError::into_inner))?;
        let asked = (key.to_owned(), model.to_owned());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        Ok(said(&answer_to(&request)))
    }
}

/// Whatever is asked for, in the form that it is asked for in.
fn answer_to(request: &Value) -> Value {
    let wanted = &request["output_config"]["format"]["schema"]["properties"];
    if wanted.get("urgency").is_some() {
        let reason = "Somebody may be in danger.";
        json!({ "kind": "problem", "urgency": "now", "reason": reason, "confidence": 0.95 })
    } else {
        json!({ "answer": "Where theatres pin what concerns everybody.", "confidence": 0.9 })
    }
}

/// An answer in two pieces.
fn said(answer: &Value) -> String {
    let text = answer.to_string();
    let (first, rest) = text.split_at(text.len() / 2);
    let piece = |text: &str| {
        let delta = json!({ "type": "text_delta", "text": text });
        json!({ "type": "content_block_delta", "index": 0, "delta": delta })
    };
    let usage = json!({ "input_tokens": 120, "output_tokens": 1 });
    let message = json!({ "id": "msg_1", "role": "assistant", "usage": usage });
    let text = json!({ "type": "text", "text": "" });
    let stop = json!({ "stop_reason": "end_turn" });
    let frames = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": text }),
        piece(first),
        piece(rest),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": stop, "usage": { "output_tokens": 30 } }),
        json!({ "type": "message_stop" }),
    ];
    let frame = |frame: &Value| {
        format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap_or_default())
    };
    frames.iter().map(frame).collect()
}

/// The provider's own words, which nobody repeats.
fn error(status: u16) -> String {
    let error = json!({ "type": "overloaded_error", "message": format!("CANARY {status}") });
    json!({ "type": "error", "error": error }).to_string()
}
