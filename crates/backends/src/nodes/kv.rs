//! `core.storage.kv-*`: values that workflows keep from run to run, each change made once.

use std::time::Duration;

use async_trait::async_trait;
use callboard_core::Outcome;
use callboard_engine::{
    Activity, Call, CallFailure, Effect, MOST_KEYS, OnUnknown, Once, OnceError, StoredValue,
    ValueChange, ValueName,
};
use callboard_protocol::Object;
use serde_json::{Value, json};

use super::given::{input_text, invalid, outcome, whole};

/// Where values stand whose node names no namespace.
const USUAL_NAMESPACE: &str = "default";
const USUAL_KEYS: u64 = 100;
/// Ten years.
const LONGEST_SECONDS: u64 = 315_360_000;

#[derive(Debug)]
pub(super) struct KeptValues;

#[async_trait]
impl Activity for KeptValues {
    async fn perform(&self, call: Call) -> Outcome {
        let asked = json!({ "config": call.config, "inputs": call.inputs });
        let effect = Effect {
            index: 0,
            provider: call.type_id.as_str(),
            request: &asked,
            // A change that was made is found by the name of its call.
            on_unknown: OnUnknown::Repeat,
            is_recorded: false,
        };
        match call.once(effect, |once| act(&call, once)).await {
            Ok(value) => Outcome::Done { outputs: value.as_object().cloned().unwrap_or_default() },
            Err(OnceError::Ended(outcome)) => outcome,
            // Nobody listens to an attempt that no longer counts.
            Err(OnceError::Superseded) => outcome(Ok(Object::new())),
        }
    }
}

async fn act(call: &Call, once: Once) -> Result<Value, CallFailure> {
    let namespace = match call.config.get("namespace") {
        None => USUAL_NAMESPACE,
        Some(said) => said.as_str().ok_or_else(|| invalid("config.namespace must be a text"))?,
    };
    if call.type_id.as_str() == "core.storage.kv-list" {
        return list(call, namespace).await;
    }
    let name = ValueName { namespace, key: input_text(call, "key")? };
    let given = |port: &str| {
        let value = call.inputs.get(port).cloned();
        value.ok_or_else(|| invalid(format!("the input {port} is missing")))
    };
    let change = match call.type_id.as_str() {
        "core.storage.kv-get" => return get(call, name).await,
        "core.storage.kv-set" => {
            let seconds = whole(&call.config, "ttlSeconds", (1, 0, LONGEST_SECONDS))?;
            let lasts = Some(Duration::from_secs(seconds)).filter(|lasts| !lasts.is_zero());
            let expires_at = lasts.map(|lasts| call.now().plus(lasts));
            ValueChange::Set(StoredValue { value: given("value")?, expires_at })
        }
        "core.storage.kv-delete" => ValueChange::Delete,
        "core.storage.kv-cas" => {
            ValueChange::Swap { expected: given("expect")?, value: given("set")? }
        }
        _ => match call.config.get("delta") {
            None => ValueChange::Add(1),
            Some(delta) => ValueChange::Add(
                delta.as_i64().ok_or_else(|| invalid("config.delta must be a whole number"))?,
            ),
        },
    };
    call.change_value(&once.id, name, &change).await
}

async fn get(call: &Call, name: ValueName<'_>) -> Result<Value, CallFailure> {
    let Some(found) = call.stored_value(name).await? else {
        return Ok(json!({ "found": false, "value": null, "ttlRemainingMs": null }));
    };
    let left = found.expires_at.map(|expires_at| {
        u64::try_from(expires_at.since(call.now()).as_millis()).unwrap_or(u64::MAX)
    });
    Ok(json!({ "found": true, "value": found.value, "ttlRemainingMs": left }))
}

async fn list(call: &Call, namespace: &str) -> Result<Value, CallFailure> {
    let text = |value: Option<&Value>, place: &str| match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(format!("{place} must be a text"))),
    };
    let prefix = text(call.config.get("prefix"), "config.prefix")?.unwrap_or_default();
    let cursor = text(call.inputs.get("cursor"), "the input cursor")?;
    let limit = whole(&call.config, "limit", (1, USUAL_KEYS, MOST_KEYS as u64))?;
    let limit = usize::try_from(limit).unwrap_or(MOST_KEYS);
    let (keys, has_more) = call.stored_keys(namespace, &prefix, cursor.as_deref(), limit).await?;
    let next = keys.last().filter(|_| has_more).cloned();
    Ok(json!({ "keys": keys, "nextCursor": next }))
}
