//! The union of a run's events in the OpenAPI document, told apart by `type`.

use callboard_protocol::{EVENT_TYPES, Object};
use serde_json::{Value, json};

use super::reference;

/// For each kind that this host emits a name and the schema of its payload, by hand for the same reason.
const EVENTS: &str = include_str!("events.json");

/// A kind that the protocol has and this host does not type: what an evaluation or a deployment states.
const OTHER: &str = "OtherEvent";

/// Adds the union `RunEvent`, and for each kind an event and a payload.
pub(super) fn add_to(schemas: &mut Object) {
    let typed: Object = serde_json::from_str(EVENTS).unwrap_or_default();
    let mut union: Vec<Value> = Vec::new();
    let mut mapping = Object::new();
    for (kind, described) in &typed {
        let name = described["name"].as_str().unwrap_or_default();
        let (event, payload) = (format!("{name}Event"), format!("{name}Payload"));
        mapping.insert(kind.clone(), reference(&event)["$ref"].clone());
        union.push(reference(&event));
        schemas.insert(event, envelope(&json!({ "const": kind }), &reference(&payload)));
        schemas.insert(payload, described["payload"].clone());
    }
    let others: Vec<&str> =
        EVENT_TYPES.into_iter().filter(|kind| !typed.contains_key(*kind)).collect();
    for kind in &others {
        mapping.insert((*kind).to_owned(), reference(OTHER)["$ref"].clone());
    }
    union.push(reference(OTHER));
    let kinds = json!({ "type": "string", "enum": others });
    schemas.insert(OTHER.to_owned(), envelope(&kinds, &reference("Object")));
    let words =
        "One event of a run's log. Later versions add kinds: ignore those that you do not know.";
    let discriminator = json!({ "propertyName": "type", "mapping": mapping });
    let union = json!({ "description": words, "oneOf": union, "discriminator": discriminator });
    schemas.insert("RunEvent".to_owned(), union);
}

fn envelope(kind: &Value, payload: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        "properties": {
            "eventId": { "type": "string" },
            "runId": { "type": "string" },
            "nodeId": { "type": "string" },
            "type": kind,
            "payload": payload,
            "timestamp": { "type": "string", "format": "date-time" },
            "sequence": { "type": "integer", "minimum": 0 },
            "schemaVersion": { "type": "integer" },
            "engineVersion": { "type": "string" },
            "causationId": { "type": "string", "description": "The event, here or elsewhere, that led to it." },
        },
    })
}

#[cfg(test)]
mod tests {
    use callboard_protocol::Event;

    use super::*;

    #[test]
    fn every_kind_that_is_typed_is_described() {
        let described: Object = serde_json::from_str(EVENTS).unwrap_or_default();
        for kind in Event::KINDS {
            assert!(described.contains_key(*kind), "{kind} has no schema");
        }
        for kind in described.keys() {
            let is_known =
                EVENT_TYPES.contains(&kind.as_str()) || Event::KINDS.contains(&kind.as_str());
            assert!(is_known, "{kind} is no event");
        }
    }
}
