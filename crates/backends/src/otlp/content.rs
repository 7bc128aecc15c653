//! What models were asked and what they answered, on the spans of their calls. Only where an operator asks for it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use callboard_agents::{RecordedCall, recorded_calls};
use callboard_core::{Span, span_text};
use callboard_engine::{Engine, EngineError, Scope};
use callboard_protocol::{NodeId, RunId};

/// Adds messages to the spans of one run. A run whose definition marks anything sensitive says nothing.
pub(super) async fn add(
    engine: &Engine,
    scope: &Scope,
    run: &RunId,
    spans: &mut [Span],
) -> Result<(), EngineError> {
    let is_sensitive = spans
        .first()
        .is_none_or(|own| own.attributes.get("openwop.pii_present") != Some(&Value::Bool(false)));
    if is_sensitive {
        return Ok(());
    }
    let mut visits: BTreeMap<(NodeId, u32), Vec<RecordedCall>> = BTreeMap::new();
    for span in spans {
        let Some((node, visit, ordinal)) = place(span) else { continue };
        let key = (node, visit);
        if !visits.contains_key(&key) {
            let outcomes = engine.call_outcomes(scope, run, &key.0, visit).await?;
            let mut calls = recorded_calls(outcomes.unwrap_or_default());
            // A failed call of a provider has a span of another kind.
            calls.retain(|call| call.answer.get("trouble").is_none());
            visits.insert(key.clone(), calls);
        }
        let call = visits.get(&key).and_then(|calls| calls.get(ordinal));
        if let Some(call) = call {
            describe(span, call);
        }
    }
    Ok(())
}

/// Which answer of which visit a span is about.
fn place(span: &Span) -> Option<(NodeId, u32, usize)> {
    let number = |name: &str| span.attributes.get(name)?.as_u64();
    let node = span.attributes.get("openwop.node_id")?.as_str()?;
    let ordinal = usize::try_from(number("openwop.call_ordinal")?).ok()?;
    Some((node.into(), u32::try_from(number("openwop.node_visit")?).ok()?, ordinal))
}

fn describe(span: &mut Span, call: &RecordedCall) {
    let system = call.request.get("system").and_then(Value::as_str);
    let messages = call.request.get("messages").and_then(Value::as_array);
    let said = messages.map(|all| all.iter().map(own_message).collect::<Vec<_>>());
    let answer = message("assistant", &call.answer);
    let shown = [
        ("gen_ai.system_instructions", system.map(|text| json!([text_part(text)]))),
        ("gen_ai.input.messages", said.map(Value::Array)),
        ("gen_ai.output.messages", Some(json!([answer]))),
    ];
    for (name, value) in shown {
        if let Some(value) = value {
            span.attributes.insert(name.to_owned(), span_text(&value).into());
        }
    }
}

fn own_message(kept: &Value) -> Value {
    message(kept["role"].as_str().unwrap_or("user"), kept)
}

/// A message as the conventions write it: a role, and parts.
fn message(role: &str, said: &Value) -> Value {
    let mut parts = Vec::new();
    if let Some(text) = said.get("text").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        parts.push(text_part(text));
    }
    let calls = said.get("calls").or_else(|| said.get("toolCalls")).and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        parts.push(json!({
            "type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["arguments"],
        }));
    }
    if let Some(result) = said.get("result") {
        parts.push(json!({
            "type": "tool_call_response", "id": result["callId"], "response": result["content"],
        }));
    }
    json!({ "role": role, "parts": parts })
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "content": text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_written_as_the_conventions_write_them() {
        let call = json!({ "id": "c1", "name": "look", "arguments": { "at": "it" } });
        let cases = [
            (
                json!({ "role": "user", "text": "Hello." }),
                json!({ "role": "user", "parts": [{ "type": "text", "content": "Hello." }] }),
            ),
            (
                json!({ "role": "assistant", "text": "", "calls": [call] }),
                json!({ "role": "assistant", "parts": [
                    { "type": "tool_call", "id": "c1", "name": "look", "arguments": { "at": "it" } },
                ] }),
            ),
            (
                json!({ "role": "tool", "result": { "callId": "c1", "name": "look", "content": "7" } }),
                json!({ "role": "tool", "parts": [
                    { "type": "tool_call_response", "id": "c1", "response": "7" },
                ] }),
            ),
        ];
        for (kept, expected) in cases {
            assert_eq!(own_message(&kept), expected);
        }
    }
}
