//! What a node is given, read by the kind of value that its type's schemas ask for. A refusal names the place and the
//! kinds, never the value: that may be secret.

use callboard_protocol::{Failure, Object, Timestamp};
use serde_json::Value;

#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) config: &'a Object,
    pub(crate) inputs: &'a Object,
    /// When the node is computed.
    pub(crate) at: Timestamp,
    /// What no other computation of any run has.
    pub(crate) name: &'a dyn Fn() -> String,
}

impl std::fmt::Debug for Given<'_> {
    /// Leaves out what may be somebody's secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<'a> Given<'a> {
    /// An input that must be there, of whatever kind.
    pub(super) fn input(&self, key: &str) -> Result<&'a Value, Failure> {
        self.inputs.get(key).ok_or_else(|| invalid(format!("the input {key} is missing")))
    }

    pub(super) fn text(&self, key: &str) -> Result<&'a str, Failure> {
        let value = self.input(key)?;
        value.as_str().ok_or_else(|| wrong_kind(&format!("the input {key}"), "a text", value))
    }

    pub(super) fn list(&self, key: &str) -> Result<&'a [Value], Failure> {
        let value = self.input(key)?;
        let list = value.as_array().map(Vec::as_slice);
        list.ok_or_else(|| wrong_kind(&format!("the input {key}"), "a list", value))
    }

    pub(super) fn object(&self, key: &str) -> Result<&'a Object, Failure> {
        let value = self.input(key)?;
        value.as_object().ok_or_else(|| wrong_kind(&format!("the input {key}"), "an object", value))
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, Failure> {
        let value = self.input(key)?;
        value.as_f64().ok_or_else(|| wrong_kind(&format!("the input {key}"), "a number", value))
    }

    pub(super) fn configured_text(&self, key: &str) -> Result<Option<&'a str>, Failure> {
        self.configured(key, "a text", Value::as_str)
    }

    pub(super) fn required_text(&self, key: &str) -> Result<&'a str, Failure> {
        self.configured_text(key)?.ok_or_else(|| missing(key))
    }

    pub(super) fn configured_list(&self, key: &str) -> Result<Option<&'a [Value]>, Failure> {
        self.configured(key, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    pub(super) fn required_list(&self, key: &str) -> Result<&'a [Value], Failure> {
        self.configured_list(key)?.ok_or_else(|| missing(key))
    }

    pub(super) fn required_object(&self, key: &str) -> Result<&'a Object, Failure> {
        self.configured(key, "an object", Value::as_object)?.ok_or_else(|| missing(key))
    }

    /// A whole number that is at least `least`.
    pub(super) fn configured_whole(&self, key: &str, least: u64) -> Result<Option<usize>, Failure> {
        let whole = |value: &Value| {
            let number = value.as_u64().or_else(|| whole_float(value))?;
            usize::try_from(number).ok().filter(|_| number >= least)
        };
        self.configured(key, &format!("a whole number from {least} on"), whole)
    }

    pub(super) fn required_whole(&self, key: &str, least: u64) -> Result<usize, Failure> {
        self.configured_whole(key, least)?.ok_or_else(|| missing(key))
    }

    pub(super) fn configured_number(&self, key: &str) -> Result<Option<f64>, Failure> {
        self.configured(key, "a number", Value::as_f64)
    }

    pub(super) fn configured_flag(&self, key: &str, default: bool) -> Result<bool, Failure> {
        Ok(self.configured(key, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    /// One of a few words.
    pub(super) fn choice<const N: usize>(
        &self,
        key: &str,
        choices: [&'static str; N],
        default: Option<&'static str>,
    ) -> Result<&'static str, Failure> {
        match self.configured_text(key)? {
            None => default.ok_or_else(|| missing(key)),
            Some(said) => choices.into_iter().find(|choice| *choice == said).ok_or_else(|| {
                invalid(format!("config.{key} must be one of {}", choices.join(", ")))
            }),
        }
    }

    fn configured<T>(
        &self,
        key: &str,
        kind: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.config.get(key) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(wrong_kind(&format!("config.{key}"), kind, value)),
        }
    }
}

fn whole_float(value: &Value) -> Option<u64> {
    let number = value.as_f64().filter(|it| it.fract() == 0.0 && (0.0..9e15).contains(it))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative, and below 2^53"
    )]
    Some(number as u64)
}

pub(super) fn invalid(why: impl Into<String>) -> Failure {
    Failure::new("validation_error", why)
}

pub(crate) fn wrong_kind(place: &str, wanted: &str, found: &Value) -> Failure {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    invalid(format!("{place} must be {wanted}, and is {found}"))
}

fn missing(key: &str) -> Failure {
    invalid(format!("config.{key} is missing"))
}
