//! JSON-RPC on standard streams, one message to a line.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::json::Raw;

/// The code for a method that is not there.
pub(super) const NO_SUCH_METHOD: i64 = -32601;

/// A message of whatever kind, taken apart once.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) method: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) params: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) result: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) error: Raw<'a>,
}

pub(super) fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub(super) fn answer(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// To whoever asks for something of ours.
pub(super) fn not_offered(id: &Value) -> Value {
    let error = json!({ "code": NO_SUCH_METHOD, "message": "not offered" });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}
