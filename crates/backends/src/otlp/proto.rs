//! OTLP as protocol buffers, written by hand: a dozen fields do not earn a generated crate.

use serde_json::Value;

use callboard_core::Span;
use callboard_protocol::Object;

use super::{SCOPE, kind_number, nanos, status_number};

/// An `ExportTraceServiceRequest`.
pub(super) fn message(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    let mut described = Message::default();
    for (name, value) in resource {
        described.nested(1, &key_value(name, &Value::String(value.clone())));
    }
    let mut scope = Message::default();
    scope.text(1, SCOPE.0);
    scope.text(2, SCOPE.1);
    let mut scoped = Message::default();
    scoped.nested(1, &scope);
    for span in spans {
        scoped.nested(2, &span_message(span));
    }
    let mut of_resource = Message::default();
    of_resource.nested(1, &described);
    of_resource.nested(2, &scoped);
    let mut request = Message::default();
    request.nested(1, &of_resource);
    request.0
}

fn span_message(span: &Span) -> Message {
    let mut message = Message::default();
    message.bytes(1, &unhex(&span.trace_id));
    message.bytes(2, &unhex(&span.span_id));
    if let Some(state) = &span.trace_state {
        message.text(3, state);
    }
    if let Some(parent) = &span.parent_span_id {
        message.bytes(4, &unhex(parent));
    }
    message.text(5, &span.name);
    message.number(6, kind_number(span.kind));
    message.fixed(7, nanos(span.started_at));
    message.fixed(8, nanos(span.ended_at.unwrap_or(span.started_at)));
    message.attributes(9, &span.attributes);
    for event in &span.events {
        let mut told = Message::default();
        told.fixed(1, nanos(event.at));
        told.text(2, &event.name);
        told.attributes(3, &event.attributes);
        message.nested(11, &told);
    }
    for link in &span.links {
        let mut linked = Message::default();
        linked.bytes(1, &unhex(&link.trace_id));
        linked.bytes(2, &unhex(&link.span_id));
        message.nested(13, &linked);
    }
    let mut status = Message::default();
    if let Some(text) = &span.status.message {
        status.text(2, text);
    }
    status.number(3, status_number(span.status.code));
    message.nested(15, &status);
    message
}

fn key_value(name: &str, value: &Value) -> Message {
    let mut pair = Message::default();
    pair.text(1, name);
    pair.nested(2, &any_value(value));
    pair
}

fn any_value(value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::String(text) => any.text(1, text),
        Value::Bool(held) => any.number(2, u64::from(*held)),
        Value::Number(number) => match number.as_i64() {
            // Two's complement is how a negative number travels.
            Some(whole) => any.number(3, u64::from_le_bytes(whole.to_le_bytes())),
            None => any.fixed(4, number.as_f64().unwrap_or_default().to_bits()),
        },
        Value::Array(items) => {
            let mut list = Message::default();
            for item in items {
                list.nested(1, &any_value(item));
            }
            any.nested(5, &list);
        }
        Value::Object(fields) => {
            let mut list = Message::default();
            list.attributes(1, fields);
            any.nested(6, &list);
        }
        Value::Null => {}
    }
    any
}

/// A message in the making.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    const VARINT: u64 = 0;
    const FIXED_64: u64 = 1;
    const LENGTH: u64 = 2;

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | Self::VARINT);
        self.varint(value);
    }

    fn fixed(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | Self::FIXED_64);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | Self::LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn nested(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn attributes(&mut self, field: u64, bag: &Object) {
        for (name, value) in bag {
            self.nested(field, &key_value(name, value));
        }
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Ids are hexadecimal of our own making; what is none becomes empty, which collectors refuse by name.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    digits.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_lengths_are_written_as_the_format_says() {
        let mut message = Message::default();
        message.number(1, 300);
        message.text(2, "testing");
        message.fixed(7, 1);
        assert_eq!(
            message.0,
            [
                0x08, 0xac, 0x02, 0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g', 0x39, 1, 0,
                0, 0, 0, 0, 0, 0
            ]
        );
    }

    #[test]
    fn each_kind_of_value_has_its_field() {
        for (value, expected) in [
            (json!("a"), vec![0x0a, 1, b'a']),
            (json!(true), vec![0x10, 1]),
            (json!(5), vec![0x18, 5]),
            (json!(-1), [vec![0x18], vec![0xff; 9], vec![0x01]].concat()),
            (json!(0.5), [vec![0x21], 0.5_f64.to_bits().to_le_bytes().to_vec()].concat()),
            (json!(["a"]), vec![0x2a, 5, 0x0a, 3, 0x0a, 1, b'a']),
            (json!({ "k": 1 }), vec![0x32, 9, 0x0a, 7, 0x0a, 1, b'k', 0x12, 2, 0x18, 1]),
            (json!(null), vec![]),
        ] {
            assert_eq!(any_value(&value).0, expected, "{value}");
        }
    }

    #[test]
    fn ids_travel_as_bytes() {
        assert_eq!(unhex("00f067aa0ba902b7"), [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert_eq!(unhex("no"), Vec::<u8>::new());
    }
}
