//! A first pack of one agent, good enough to pack as it is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use callboard_protocol::PackName;

/// The files of a new pack by path.
pub fn scaffold(name: &PackName) -> BTreeMap<&'static str, String> {
    let short = name.as_str().rsplit('.').next().unwrap_or_default();
    BTreeMap::from([
        ("pack.json", pretty(&manifest(name))),
        ("prompts/assistant.md", PROMPT.to_owned()),
        ("schemas/assistant.task.schema.json", pretty(&task())),
        ("schemas/assistant.return.schema.json", pretty(&result())),
        ("README.md", format!("# {short}\n\nOne agent: `{name}.assistant`.\n")),
    ])
}

const PROMPT: &str = "\
You answer one question at a time.

Read the question in the task. If the context helps, use it; if it contradicts what you know, say so.
Answer in at most five sentences. State how sure you are as a number from 0 to 1: below 0.7 a person
will look at the answer before anybody acts on it.
";

fn manifest(name: &PackName) -> Value {
    json!({
        "name": name,
        "version": "0.1.0",
        "description": "What this pack is for, in one sentence.",
        "license": "Apache-2.0",
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "peerDependencies": {
            "agents.manifestRuntime": "supported",
            "aiProviders": "supported"
        },
        "agents": [{
            "agentId": format!("{name}.assistant"),
            "persona": "Assistant",
            "description": "Answers one question, with a confidence.",
            "modelClass": "general",
            "systemPromptRef": "prompts/assistant.md",
            "toolAllowlist": [],
            "memoryShape": { "scratchpad": false, "conversation": false, "longTerm": false },
            "handoff": {
                "taskSchemaRef": "schemas/assistant.task.schema.json",
                "returnSchemaRef": "schemas/assistant.return.schema.json"
            },
            "confidence": { "defaultThreshold": 0.7 }
        }],
        "runtime": { "language": "remote", "entry": "pack.json" }
    })
}

fn task() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "required": ["question"],
        "properties": {
            "question": { "type": "string", "minLength": 1 },
            "context": { "type": "string" }
        }
    })
}

fn result() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "required": ["answer", "confidence"],
        "properties": {
            "answer": { "type": "string", "minLength": 1 },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 }
        }
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
