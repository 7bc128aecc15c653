//! The kinds that every host takes, and what must be in them.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::detail;
use crate::pack::Schema;

/// Always taken, whatever a node accepts.
pub const UNIVERSAL_KINDS: [&str; 4] =
    ["clarification.request", "schema.request", "schema.response", "error"];

static SCHEMAS: LazyLock<Vec<(&'static str, Option<Schema>)>> = LazyLock::new(|| {
    UNIVERSAL_KINDS
        .into_iter()
        .map(|kind| (kind, Schema::compile(schema(kind).to_string().as_bytes()).ok()))
        .collect()
});

fn schema(kind: &str) -> Value {
    let text =
        |least: u32, most: u32| json!({ "type": "string", "minLength": least, "maxLength": most });
    let (required, properties) = match kind {
        "clarification.request" => {
            let question = json!({
                "type": "object", "additionalProperties": false, "required": ["id", "question"],
                "properties": {
                    "id": text(1, 128),
                    "question": { "type": "string", "minLength": 1 },
                    "schema": { "type": "object" },
                    "context": { "type": "object" },
                },
            });
            (
                json!(["questions"]),
                json!({
                    "questions": { "type": "array", "minItems": 1, "items": question },
                    "contextType": text(0, 128),
                    "reasoning": { "type": "string" },
                }),
            )
        }
        "schema.request" => (
            json!(["envelopeType"]),
            json!({
                "envelopeType": text(1, 256),
                "reason": text(0, 1024),
                "reasoning": { "type": "string" },
            }),
        ),
        "schema.response" => (
            json!(["envelopeType", "ack"]),
            json!({ "envelopeType": text(1, 256), "ack": { "const": true } }),
        ),
        _ => (
            json!(["code", "message"]),
            json!({
                "code": text(1, 128),
                "message": { "type": "string", "minLength": 1 },
                "details": { "type": "object" },
                "reasoning": { "type": "string" },
            }),
        ),
    };
    json!({
        "type": "object", "additionalProperties": false, "required": required, "properties": properties,
    })
}

/// What is wrong with a payload. Of a kind that is not universal nothing is known, so nothing is wrong.
pub(super) fn broken_rules(kind: &str, payload: &Value) -> Vec<Value> {
    let Some((_, schema)) = SCHEMAS.iter().find(|(known, _)| *known == kind) else {
        return Vec::new();
    };
    let Some(schema) = schema else {
        return vec![detail("/payload", "cannot be checked")];
    };
    schema.broken_rules(payload).iter().map(|rule| detail("/payload", rule)).collect()
}
