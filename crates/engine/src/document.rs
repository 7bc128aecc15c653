//! A stored event as the protocol's `RunEventDoc`, in the text that readers get.
//!
//! Nothing is written more often, so this one document is put together by hand.

use serde::{Serialize, Serializer, ser};
use serde_json::Value;
use serde_json::value::RawValue;

use callboard_core::Cause;
use callboard_protocol::{EVENT_SCHEMA_VERSION, Event};

use crate::store::Recorded;

/// What the names of the members and the short values come to.
const ROOM_BESIDE_PAYLOAD: usize = 384;

impl Recorded {
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(self.payload.len() + ROOM_BESIDE_PAYLOAD);
        self.write_json(&mut text);
        text
    }

    /// Several, as an array.
    pub fn all_to_json(events: &[Self]) -> String {
        let room = |event: &Self| event.payload.len() + ROOM_BESIDE_PAYLOAD;
        let mut text = String::with_capacity(2 + events.iter().map(room).sum::<usize>());
        text.push('[');
        for (place, event) in events.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            event.write_json(&mut text);
        }
        text.push(']');
        text
    }

    fn write_json(&self, text: &mut String) {
        text.push_str("{\"eventId\":");
        self.push_event_id(text, self.sequence);
        text.push_str(",\"runId\":");
        push_string(text, self.run.as_str());
        if let Some(node) = &self.node {
            text.push_str(",\"nodeId\":");
            push_string(text, node.as_str());
        }
        text.push_str(",\"type\":");
        push_string(text, &self.kind);
        text.push_str(",\"payload\":");
        text.push_str(&self.payload);
        text.push_str(",\"timestamp\":\"");
        self.at.push_to(text);
        text.push_str("\",\"sequence\":");
        push_number(text, self.sequence);
        text.push_str(",\"schemaVersion\":");
        push_number(text, EVENT_SCHEMA_VERSION.into());
        text.push_str(",\"engineVersion\":\"");
        push_number(text, self.engine_version.into());
        text.push('"');
        if Event::is_untrusted(&self.kind) {
            text.push_str(",\"contentTrust\":\"untrusted\"");
        }
        if let Some(cause) = &self.cause {
            text.push_str(",\"causationId\":");
            match cause {
                Cause::Event(sequence) => self.push_event_id(text, *sequence),
                Cause::Outside(id) => push_string(text, id),
            }
        }
        text.push('}');
    }

    /// As `EventId::of`.
    fn push_event_id(&self, text: &mut String, sequence: u64) {
        push_string(text, self.run.as_str());
        text.pop();
        text.push('-');
        push_number(text, sequence);
        text.push('"');
    }
}

/// For documents that hold events among other things.
impl Serialize for Recorded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_json();
        let document: &RawValue = serde_json::from_str(&text).map_err(ser::Error::custom)?;
        document.serialize(serializer)
    }
}

fn push_string(text: &mut String, value: &str) {
    // Without a way out in the middle the compiler looks at many bytes at once.
    let is_plain = value
        .bytes()
        .fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
    if is_plain {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&Value::from(value).to_string());
    }
}

fn push_number(text: &mut String, number: u64) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + u8::try_from(number % 10).unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use callboard_protocol::{EventId, Timestamp};

    use super::*;

    fn recorded(run: &str, sequence: u64) -> Recorded {
        Recorded {
            run: run.into(),
            sequence,
            at: Timestamp::from_millis(1_763_251_200_007),
            kind: "node.started".to_owned(),
            node: Some("a".into()),
            payload: r#"{"nodeId":"a"}"#.to_owned(),
            engine_version: 12,
            cause: Some(Cause::Event(9)),
        }
    }

    #[test]
    fn holds_every_member_of_the_document() {
        let event = recorded("run_1", 1_234_567_890);
        let document: Value = serde_json::from_str(&event.to_json()).expect("JSON");
        assert_eq!(
            document,
            json!({
                "eventId": EventId::of(&event.run, event.sequence),
                "runId": "run_1",
                "nodeId": "a",
                "type": "node.started",
                "payload": { "nodeId": "a" },
                "timestamp": event.at,
                "sequence": 1_234_567_890,
                "schemaVersion": 1,
                "engineVersion": "12",
                "causationId": EventId::of(&event.run, 9),
            })
        );
    }

    #[test]
    fn escapes_what_would_end_a_string() {
        let odd = "run \"1\"\\\n\u{1}ü";
        let mut event = recorded(odd, 0);
        event.node = Some(odd.into());
        event.kind = "agent.toolReturned".to_owned();
        event.cause = Some(Cause::Outside(odd.into()));
        let document: Value = serde_json::from_str(&event.to_json()).expect("JSON");
        let of = |name: &str| document[name].as_str();
        assert_eq!(of("eventId"), Some(EventId::of(&event.run, 0).as_str()));
        assert_eq!(
            [of("runId"), of("nodeId"), of("causationId"), of("contentTrust")],
            [Some(odd), Some(odd), Some(odd), Some("untrusted")]
        );
    }

    #[test]
    fn stands_in_other_documents_as_it_stands_alone() {
        let events = [recorded("run_1", 0), recorded("run_1", 1)];
        let [first, second] = [&events[0], &events[1]].map(Recorded::to_json);
        assert_eq!(Recorded::all_to_json(&events), format!("[{first},{second}]"));
        assert_eq!(serde_json::to_string(&events).expect("JSON"), format!("[{first},{second}]"));
        assert_eq!(Recorded::all_to_json(&[]), "[]");
    }
}
