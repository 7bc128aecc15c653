//! A model server on loopback that says what the test wants, in the words of whichever provider it is taken for.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What every model says until somebody changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mood {
    Says(&'static str),
    /// The tool first, then the words.
    Uses(Use, &'static str),
    Answers(u16),
    /// Begins to speak and never ends.
    Stalls(&'static str),
    /// Says this first, and never ends when it is asked to say it better.
    StallsInRepair(&'static str),
}

/// One use of a tool, in the words of the program that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) tool: &'static str,
    /// As JSON.
    pub(crate) input: &'static str,
}

/// Stands in what a host says to have an answer repaired.
pub(crate) const REPAIR: &str = "Answer again with one JSON value";

#[derive(Debug, Clone)]
pub(crate) struct ModelServer {
    address: String,
    mood: Arc<Mutex<Mood>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl ModelServer {
    pub(crate) async fn start(mood: Mood) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let server = Self { address, mood: Arc::new(Mutex::new(mood)), heard: Arc::default() };
        let ours = server.clone();
        #[expect(clippy::disallowed_methods, reason = "ends with the runtime of the test")]
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = ours.clone();
                #[expect(clippy::disallowed_methods, reason = "ends with the runtime of the test")]
                // A client that goes away is no concern of a server.
                tokio::spawn(async move { server.serve(stream).await.ok() });
            }
        });
        Ok(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood;
    }

    /// The bodies of the questions so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn serve(&self, stream: TcpStream) -> Result<()> {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = vec![0; length.map_or(Ok(0), |length| length.trim().parse())?];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let mut stream = stream.into_inner();
        let Some(provider) = Provider::of(&path) else {
            return Ok(write(&mut stream, 200, "application/json", "{\"data\":[]}").await?);
        };
        let mood = self.mood.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(body.clone());
        let said = match mood {
            Mood::Answers(status) => {
                let error = json!({ "error": { "message": "canary body", "code": status } });
                let error = error.to_string();
                return Ok(write(&mut stream, status, "application/json", &error).await?);
            }
            Mood::Stalls(text) => Said::begun(text),
            Mood::StallsInRepair(_) if body.contains(REPAIR) => Said::begun("Well"),
            Mood::Uses(wanted, _) if provider.can_use_a_tool(&body) => Said::tool(wanted),
            Mood::Says(text) | Mood::StallsInRepair(text) | Mood::Uses(_, text) => Said::text(text),
        };
        let frames = (provider.frames)(&said);
        if said.is_whole {
            return Ok(write(&mut stream, 200, "text/event-stream", &frames).await?);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(frames.as_bytes()).await?;
        std::future::pending().await
    }
}

/// One answer of a model.
struct Said {
    text: &'static str,
    tool: Option<Use>,
    is_whole: bool,
}

impl Said {
    fn text(text: &'static str) -> Self {
        Self { text, tool: None, is_whole: true }
    }

    fn tool(wanted: Use) -> Self {
        Self { text: "", tool: Some(wanted), is_whole: true }
    }

    fn begun(text: &'static str) -> Self {
        Self { text, tool: None, is_whole: false }
    }
}

async fn write(stream: &mut TcpStream, status: u16, kind: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} Fine\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

/// How one provider speaks.
struct Provider {
    frames: fn(&Said) -> String,
    /// Stands in a question that brings what came of a tool.
    returned: &'static str,
}

impl Provider {
    /// None where a path is no question to a model.
    fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        let speaks = |frames: fn(&Said) -> String, returned| Some(Self { frames, returned });
        match path {
            _ if path.ends_with("/messages") => speaks(anthropic, "tool_result"),
            _ if path.ends_with("/responses") => speaks(responses, "function_call_output"),
            _ if path.ends_with("/chat/completions") => speaks(chat, "\"role\":\"tool\""),
            _ if path.ends_with(":streamGenerateContent") => speaks(gemini, "functionResponse"),
            _ => None,
        }
    }

    /// Programs also ask for titles and the like, and offer no tools for that.
    fn can_use_a_tool(&self, body: &str) -> bool {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let offers = asked["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        offers && !body.contains(self.returned)
    }
}

fn named(frames: &[Value]) -> String {
    let frame = |frame: &Value| {
        format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap_or_default())
    };
    frames.iter().map(frame).collect()
}

fn anthropic(said: &Said) -> String {
    let usage = json!({ "input_tokens": 10, "output_tokens": 7 });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let (block, delta, stop) = match said.tool {
        None => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": said.text }),
            "end_turn",
        ),
        Some(Use { tool, input }) => (
            json!({ "type": "tool_use", "id": "toolu_1", "name": tool, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": input }),
            "tool_use",
        ),
    };
    let mut frames = vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
    ];
    if said.is_whole {
        frames.extend([
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": usage }),
            json!({ "type": "message_stop" }),
        ]);
    }
    named(&frames)
}

fn responses(said: &Said) -> String {
    let item = match said.tool {
        None => json!({
            "type": "message", "role": "assistant", "id": "msg_1",
            "content": [{ "type": "output_text", "text": said.text }],
        }),
        Some(Use { tool, input }) => json!({
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool,
            "arguments": input,
        }),
    };
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": null, "output_tokens": 7,
        "output_tokens_details": null, "total_tokens": 17,
    });
    let mut frames = vec![json!({ "type": "response.created", "response": { "id": "resp_1" } })];
    if said.is_whole {
        frames.extend([
            json!({ "type": "response.output_item.done", "item": item }),
            json!({ "type": "response.completed", "response": { "id": "resp_1", "usage": usage } }),
        ]);
    }
    named(&frames)
}

fn chat(said: &Said) -> String {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": "c_1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17 },
        })
    };
    let (delta, stop) = match said.tool {
        None => (json!({ "role": "assistant", "content": said.text }), "stop"),
        Some(Use { tool, input }) => {
            let function = json!({ "name": tool, "arguments": input });
            let call =
                json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
            (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
        }
    };
    let mut text = format!("data: {}\n\n", chunk(delta, Value::Null));
    if said.is_whole {
        text.push_str(&format!("data: {}\n\ndata: [DONE]\n\n", chunk(json!({}), json!(stop))));
    }
    text
}

fn gemini(said: &Said) -> String {
    let part = match said.tool {
        None => json!({ "text": said.text }),
        Some(Use { tool, input }) => {
            let arguments: Value = serde_json::from_str(input).unwrap_or_default();
            json!({ "functionCall": { "name": tool, "args": arguments } })
        }
    };
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": [part] } });
    if said.is_whole {
        candidate["finishReason"] = json!("STOP");
    }
    let usage = json!({ "promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17 });
    format!("data: {}\n\n", json!({ "candidates": [candidate], "usageMetadata": usage }))
}
