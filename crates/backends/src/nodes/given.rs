//! What an acting node is given, read by the kind of value that its type's schemas ask for. A refusal names the place
//! and the kind, never the value.

use callboard_core::{Outcome, RetryClass};
use callboard_engine::{Call, CallFailure};
use callboard_protocol::{Failure, Object};
use serde_json::Value;

pub(super) fn failed(code: &str, why: impl Into<String>) -> CallFailure {
    CallFailure { failure: Failure::new(code, why), class: RetryClass::Final }
}

pub(super) fn invalid(why: impl Into<String>) -> CallFailure {
    failed("validation_error", why)
}

pub(super) fn outcome(done: Result<Object, CallFailure>) -> Outcome {
    match done {
        Ok(outputs) => Outcome::Done { outputs },
        Err(CallFailure { failure, class }) => Outcome::Failed { failure, class },
    }
}

pub(super) fn outputs<const N: usize>(fields: [(&str, Value); N]) -> Object {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A text that must come over a port.
pub(super) fn input_text<'a>(call: &'a Call, key: &str) -> Result<&'a str, CallFailure> {
    let text = call.inputs.get(key).and_then(Value::as_str);
    text.ok_or_else(|| invalid(format!("the input {key} must be a text")))
}

/// One of a few words of the configuration.
pub(super) fn choice<const N: usize>(
    config: &Object,
    key: &str,
    choices: [&'static str; N],
) -> Result<&'static str, CallFailure> {
    let said = match config.get(key) {
        None => return Ok(choices[0]),
        Some(said) => said.as_str(),
    };
    choices
        .into_iter()
        .find(|choice| Some(*choice) == said)
        .ok_or_else(|| invalid(format!("config.{key} must be one of {}", choices.join(", "))))
}

/// A whole number of the configuration within bounds.
pub(super) fn whole(
    config: &Object,
    key: &str,
    (least, usual, most): (u64, u64, u64),
) -> Result<u64, CallFailure> {
    let Some(said) = config.get(key) else { return Ok(usual) };
    let number = said.as_u64().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| invalid(format!("{key} must be a whole number from {least} to {most}")))
}
