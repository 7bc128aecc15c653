//! JSON-RPC on standard streams, one message to a line.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::json::{self, Raw};
use crate::transcript::{Fact, Failure, Terminal, Unreadable};

/// The code for a method that is not there.
pub(super) const NO_SUCH_METHOD: i64 = -32601;

/// What the other side sends.
pub(super) enum Incoming<'a> {
    /// Nobody waits for an answer.
    Notice {
        method: Cow<'a, str>,
        params: Raw<'a>,
    },
    Request {
        id: Value,
        method: Cow<'a, str>,
        params: Raw<'a>,
    },
    /// The result of a request of ours.
    Result {
        id: i64,
        result: Value,
    },
    Error {
        id: i64,
        error: Value,
    },
    /// None of these.
    Unknown,
}

pub(super) fn read(line: &str) -> Result<Incoming<'_>, Unreadable> {
    let message = json::line(line)?;
    let params = message.get("params");
    Ok(match (message.get("id"), message.string("method")) {
        (None, Some(method)) => Incoming::Notice { method, params },
        (Some(_), Some(method)) => Incoming::Request { id: message.value("id"), method, params },
        (Some(_), None) => {
            let id = message.read("id").unwrap_or_default();
            match message.value("error") {
                error @ Value::Object(_) => Incoming::Error { id, error },
                _ => Incoming::Result { id, result: message.value("result") },
            }
        }
        (None, None) => Incoming::Unknown,
    })
}

pub(super) fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(super) fn answer(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Ends a failed conversation. The other side would wait for more.
pub(super) fn give_up(facts: &mut Vec<Fact>, failure: Failure) {
    facts.push(Fact::Ended(Terminal::Failed(failure)));
    facts.push(Fact::HangUp);
}

/// The answer to a request for something that we do not offer.
pub(super) fn not_offered(id: &Value) -> Value {
    let error = json!({ "code": NO_SUCH_METHOD, "message": "not offered" });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

#[cfg(test)]
pub(super) mod rehearsal;
