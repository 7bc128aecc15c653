//! The gate that everything about cost passes on its way into a span.

use callboard_protocol::Object;
use serde_json::Value;

use crate::secrets::redact;

/// All that the protocol lets a span say about cost.
const ALLOWED: [&str; 7] = [
    "openwop.cost.tokens.input",
    "openwop.cost.tokens.output",
    "openwop.cost.tokens.total",
    "openwop.cost.usd",
    "openwop.cost.currency",
    "openwop.cost.estimated",
    "openwop.cost.provider",
];

/// Keeps the allowed names with plain values. A caller that puts a credential under another name, or inside a list,
/// does not see it leave.
pub(crate) fn cost_attributes(proposed: Object) -> Object {
    let is_plain =
        |value: &Value| matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    let mut kept: Object = proposed
        .into_iter()
        .filter(|(name, value)| ALLOWED.contains(&name.as_str()) && is_plain(value))
        .collect();
    kept.values_mut().for_each(redact);
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// R77.
    #[test]
    fn only_the_protocols_names_with_plain_values_pass() {
        let allowed = json!({
            "openwop.cost.tokens.input": 12,
            "openwop.cost.tokens.output": 3,
            "openwop.cost.tokens.total": 15,
            "openwop.cost.usd": 0.02,
            "openwop.cost.currency": "usd",
            "openwop.cost.estimated": true,
            "openwop.cost.provider": "anthropic",
        });
        let mut proposed = allowed.as_object().cloned().expect("an object");
        for (name, value) in [
            ("openwop.cost.leaked_token", json!("sk-0123456789abcdef0123")),
            ("openwop.cost.tokens", json!(1)),
            ("cost.usd", json!(1)),
        ] {
            proposed.insert(name.to_owned(), value);
        }
        assert_eq!(json!(cost_attributes(proposed)), allowed);
        for smuggled in [json!({ "a": 1 }), json!(["x"]), json!(null)] {
            let proposed = Object::from_iter([("openwop.cost.provider".to_owned(), smuggled)]);
            assert_eq!(cost_attributes(proposed), Object::new());
        }
        let secret = json!("sk-ant-0123456789abcdef0123");
        let proposed = Object::from_iter([("openwop.cost.provider".to_owned(), secret)]);
        assert_eq!(cost_attributes(proposed)["openwop.cost.provider"], "[REDACTED]");
    }
}
