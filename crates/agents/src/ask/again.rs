//! Calls that are sent again after a crash: the event about it, with what the first request may have cost.

use callboard_core::{AgentFact, Fact};
use callboard_engine::{Call, Once, Spent};
use serde_json::{Value, json};

/// Records that a call is sent again, if it is. The usage of the first request is estimated, since it is unknown.
pub(crate) async fn tell_again(call: &Call, once: &Once, to: &str, foreseen: Option<Spent>) {
    let Some(since) = once.perhaps_made else { return };
    let mut fields = json!({ "to": to, "idempotencyKey": once.id.as_str(), "sentAt": since });
    if let Some(Spent { input_tokens, output_tokens, cost_usd }) = foreseen {
        fields["mayHaveUsed"] = json!({
            "inputTokens": input_tokens, "outputTokens": output_tokens, "costUsd": cost_usd,
        });
    }
    let message =
        format!("the call to {to} is sent again: a host was lost before the outcome was stored");
    let fields = match fields {
        Value::Object(fields) => fields,
        _ => Default::default(),
    };
    let fact = AgentFact::SentAgain { message, fields };
    // An attempt that no longer counts learns so when the outcome is to be kept.
    let _ = call.record(vec![Fact::Agent { place: 0, fact }]).await;
}
