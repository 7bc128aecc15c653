//! OTLP as JSON: numbers of 64 bits are text, ids are hexadecimal.

use serde_json::{Value, json};

use callboard_core::Span;
use callboard_protocol::Object;

use super::{SCOPE, kind_number, nanos, status_number};

pub(super) fn document(resource: &[(String, String)], spans: &[Span]) -> Value {
    let resource: Vec<Value> = resource
        .iter()
        .map(|(name, value)| json!({ "key": name, "value": { "stringValue": value } }))
        .collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": SCOPE.0, "version": SCOPE.1 },
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }] })
}

fn span(span: &Span) -> Value {
    let events = span.events.iter().map(|event| {
        json!({
            "timeUnixNano": nanos(event.at).to_string(),
            "name": event.name,
            "attributes": attributes(&event.attributes),
        })
    });
    let links =
        span.links.iter().map(|link| json!({ "traceId": link.trace_id, "spanId": link.span_id }));
    let mut document = json!({
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": kind_number(span.kind),
        "startTimeUnixNano": nanos(span.started_at).to_string(),
        "endTimeUnixNano": nanos(span.ended_at.unwrap_or(span.started_at)).to_string(),
        "attributes": attributes(&span.attributes),
        "events": events.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "status": { "code": status_number(span.status.code) },
    });
    if let Some(parent) = &span.parent_span_id {
        document["parentSpanId"] = json!(parent);
    }
    if let Some(state) = &span.trace_state {
        document["traceState"] = json!(state);
    }
    if let Some(message) = &span.status.message {
        document["status"]["message"] = json!(message);
    }
    document
}

fn attributes(bag: &Object) -> Vec<Value> {
    bag.iter().map(|(name, held)| json!({ "key": name, "value": value(held) })).collect()
}

fn value(held: &Value) -> Value {
    match held {
        Value::String(text) => json!({ "stringValue": text }),
        Value::Bool(held) => json!({ "boolValue": held }),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => json!({ "intValue": whole.to_string() }),
            None => json!({ "doubleValue": number }),
        },
        Value::Array(items) => {
            json!({ "arrayValue": { "values": items.iter().map(value).collect::<Vec<_>>() } })
        }
        Value::Object(fields) => json!({ "kvlistValue": { "values": attributes(fields) } }),
        Value::Null => json!({}),
    }
}
