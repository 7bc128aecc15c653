//! Model calls that are sent again, after a crash or because the provider failed: the log says so, with the estimated cost.

use std::time::Duration;

use callboard_core::{AgentFact, Fact};
use callboard_engine::{Call, Once, Spent};
use callboard_protocol::Failure;
use serde_json::{Value, json};

use crate::model::{Fault, ModelError, Phase};

/// Records that a failing provider is asked again, before the wait begins. An answer that broke off does not count: the
/// next one starts from the beginning.
pub(crate) async fn tell_retry(
    call: &Call,
    error: &ModelError,
    failure: &Failure,
    (calls, wait): (u32, Duration),
) {
    let broke_off = matches!(
        error.fault,
        Fault::Broken | Fault::Malformed | Fault::TimedOut(Phase::NextByte | Phase::End)
    );
    let seconds = wait.as_millis().div_ceil(1_000);
    let when = if wait.is_zero() { "at once".to_owned() } else { format!("in {seconds} s") };
    let reset = if broke_off { ", and what it had said does not count" } else { "" };
    let message = format!("{}; it is asked again {when}{reset}", failure.message);
    let fields = json!({
        "reason": failure.code, "calls": calls, "outputReset": broke_off,
        "waitMs": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
    });
    record(call, message, fields).await;
}

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
    record(call, message, fields).await;
}

async fn record(call: &Call, message: String, fields: Value) {
    let fields = match fields {
        Value::Object(fields) => fields,
        _ => Default::default(),
    };
    let fact = AgentFact::SentAgain { message, fields };
    // An attempt that no longer counts learns so when the outcome is to be kept.
    let _ = call.record(vec![Fact::Agent { place: 0, fact }]).await;
}
