//! What the fake server says, whatever it is spoken to through.

use serde_json::{Value, json};

pub(crate) enum Reaction {
    /// Messages, the answer last.
    Answer(Vec<Value>),
    Silence,
    /// The server ends in the middle of the call.
    Death,
}

pub(crate) fn react(message: &Value) -> Reaction {
    let id = &message["id"];
    if id.is_null() {
        return Reaction::Silence;
    }
    let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => Reaction::Answer(vec![answer(json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "fake", "version": "1" },
        }))]),
        "tools/list" => Reaction::Answer(vec![answer(page(message["params"]["cursor"].as_str()))]),
        "resources/read" if message["params"]["uri"] == "memo://recent" => {
            let text =
                json!({ "uri": "memo://recent", "mimeType": "text/plain", "text": "a memo" });
            Reaction::Answer(vec![answer(json!({ "contents": [text] }))])
        }
        "prompts/get" if message["params"]["name"] == "greet" => {
            let text = format!("Greet {}", message["params"]["arguments"]["who"]);
            let said = json!({ "role": "user", "content": { "type": "text", "text": text } });
            Reaction::Answer(vec![answer(json!({ "messages": [said] }))])
        }
        "tools/call" => call(&message["params"], answer),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            Reaction::Answer(vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })])
        }
    }
}

/// Two pages, so that both are asked for.
fn page(cursor: Option<&str>) -> Value {
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    match cursor {
        None => json!({
            "tools": [
                {
                    "name": "echo",
                    "title": "Echo",
                    "description": "Says what it was told.",
                    "inputSchema": {
                        "$schema": "http://json-schema.org/draft-07/schema#",
                        "type": "object",
                        "properties": { "text": { "type": "string" } },
                        "required": ["text"]
                    },
                    "annotations": { "readOnlyHint": true }
                },
                tool("write"),
                { "name": "far", "inputSchema": { "$ref": "https://elsewhere.test/schema.json" } },
                tool("not a name"),
            ],
            "nextCursor": "2"
        }),
        Some(_) => {
            let names = ["fail", "hang", "die", "environment", "picture", "structure", "flood"];
            json!({ "tools": names.map(tool) })
        }
    }
}

fn call(params: &Value, answer: impl Fn(Value) -> Value) -> Reaction {
    let text = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
    let result = match params["name"].as_str().unwrap_or_default() {
        "echo" => text(params["arguments"]["text"].as_str().unwrap_or_default().to_owned()),
        "write" => text(params["_meta"].to_string()),
        "fail" => {
            let content = json!([{ "type": "text", "text": "it went wrong" }]);
            json!({ "content": content, "isError": true })
        }
        "environment" => {
            let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            names.sort();
            text(names.join(" "))
        }
        "picture" => json!({ "content": [
            { "type": "text", "text": "see" },
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
        ] }),
        "structure" => json!({ "content": [], "structuredContent": { "a": 1 } }),
        "flood" => text("x".repeat(16 << 20)),
        "die" => return Reaction::Death,
        _ => return Reaction::Silence,
    };
    Reaction::Answer(vec![answer(result)])
}
