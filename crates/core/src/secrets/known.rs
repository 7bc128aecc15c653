//! Values that must not be recorded: held so that they do not slip out, blotted out wherever they stand.

use std::fmt;
use std::sync::Arc;

use callboard_protocol::Object;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// Shorter values are too likely to stand in a text by chance. The protocol's reference leaves them alone too.
const SHORTEST_CHARS: usize = 8;

/// A value that must not be recorded. Wiped when it is dropped; debugging does not show it.
#[derive(Clone)]
pub struct SecretText(SecretString);

impl SecretText {
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// The value, for the one who must see it.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether a [`Redactor`] finds it again.
    pub fn is_redactable(&self) -> bool {
        self.reveal().chars().count() >= SHORTEST_CHARS
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    /// Says what is wrong without the value, which a derived reader would repeat.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::new(text)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(de::Error::custom("must be a text")),
        }
    }
}

/// Knows values, and writes `[REDACTED:<id>]` in their place.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// The longest first, so that a value within another one does not leave the rest of it behind. What a host knows from
    /// its start is shared by all of its runs.
    known: Arc<Vec<Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    text: SecretText,
    marker: String,
}

impl Redactor {
    /// Learns a value. It is also found as a text in JSON has it, where quotes and line breaks look different.
    pub fn learn(&mut self, id: &str, secret: &SecretText) {
        self.learn_as(&format!("[REDACTED:{id}]"), secret);
    }

    pub(super) fn learn_as(&mut self, marker: &str, secret: &SecretText) {
        if !secret.is_redactable() {
            return;
        }
        let plain = secret.reveal();
        let quoted = Value::from(plain).to_string();
        let within = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        for text in [Some(plain), within].into_iter().flatten() {
            if self.known.iter().all(|known| known.text.reveal() != text) {
                let text = SecretText::new(text.to_owned());
                let known = Arc::make_mut(&mut self.known);
                known.push(Known { text, marker: marker.to_owned() });
                known.sort_by_key(|known| std::cmp::Reverse(known.text.reveal().len()));
            }
        }
    }

    pub fn redact_text(&self, text: &mut String) {
        if self.is_suspect(text) {
            let mut clean = String::with_capacity(text.len());
            redact_credentials(&self.known, text, &mut clean);
            *text = clean;
        }
    }

    /// Takes what can be recorded of a text that is still being written: a value may have begun at its end.
    pub fn take_recordable(&self, text: &mut String) -> String {
        self.redact_text(text);
        let begun = self.known.iter().map(|known| begun(text, known.text.reveal()));
        let held = text.split_off(text.len() - begun.max().unwrap_or(0));
        std::mem::replace(text, held)
    }

    /// Names of fields included. A number that reads like a value becomes a text.
    pub fn redact(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) => self.redact_object(fields),
            Value::Number(number) => {
                let mut text = number.to_string();
                if self.is_suspect(&text) {
                    self.redact_text(&mut text);
                    *value = Value::String(text);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    pub(crate) fn redact_object(&self, fields: &mut Object) {
        if self.known.is_empty() {
            return;
        }
        fields.values_mut().for_each(|field| self.redact(field));
        if fields.keys().any(|name| self.is_suspect(name)) {
            let renamed = std::mem::take(fields).into_iter().map(|(mut name, field)| {
                self.redact_text(&mut name);
                (name, field)
            });
            *fields = renamed.collect();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn is_suspect(&self, text: &str) -> bool {
        self.known.iter().any(|known| text.contains(known.text.reveal()))
    }
}

/// How many bytes at the end of a text are the beginning of a value.
fn begun(text: &str, value: &str) -> usize {
    let most = value.len().saturating_sub(1).min(text.len());
    let begins =
        |length: &usize| value.get(..*length).is_some_and(|beginning| text.ends_with(beginning));
    (1..=most).rev().find(begins).unwrap_or(0)
}

/// What was written in the place of one value is not searched for the next.
fn redact_credentials(known: &[Known], text: &str, clean: &mut String) {
    let Some((first, others)) = known.split_first() else {
        clean.push_str(text);
        return;
    };
    for (place, part) in text.split(first.text.reveal()).enumerate() {
        if place > 0 {
            clean.push_str(&first.marker);
        }
        redact_credentials(others, part, clean);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn knowing(secrets: &[(&str, &str)]) -> Redactor {
        let mut redactor = Redactor::default();
        for (id, text) in secrets {
            redactor.learn(id, &SecretText::new((*text).to_owned()));
        }
        redactor
    }

    fn redacted(redactor: &Redactor, text: &str) -> String {
        let mut text = text.to_owned();
        redactor.redact_text(&mut text);
        text
    }

    #[test]
    fn a_known_value_survives_in_no_place() {
        let redactor = knowing(&[("api", "hunter2-hunter2")]);
        let mut value = json!({
            "plain": "hunter2-hunter2",
            "within": "say hunter2-hunter2hunter2-hunter2!",
            "deep": [{ "hunter2-hunter2": ["hunter2-hunter2"] }],
        });
        redactor.redact(&mut value);
        let redacted = json!({
            "plain": "[REDACTED:api]",
            "within": "say [REDACTED:api][REDACTED:api]!",
            "deep": [{ "[REDACTED:api]": ["[REDACTED:api]"] }],
        });
        assert_eq!(value, redacted);
    }

    #[test]
    fn the_longest_value_goes_first_whatever_was_learnt_first() {
        let pairs = [("short", "abcdefgh"), ("long", "abcdefgh-ijkl")];
        for secrets in [pairs, [pairs[1], pairs[0]]] {
            let clean = redacted(&knowing(&secrets), "abcdefgh-ijkl abcdefgh");
            assert_eq!(clean, "[REDACTED:long] [REDACTED:short]");
        }
    }

    #[test]
    fn what_stands_for_a_value_is_not_searched_again() {
        let redactor = knowing(&[("my-password", "0123456789"), ("other", "password")]);
        assert_eq!(
            redacted(&redactor, "0123456789 password"),
            "[REDACTED:my-password] [REDACTED:other]"
        );
    }

    #[test]
    fn values_under_eight_characters_are_left_alone() {
        let redactor = knowing(&[("pin", "1234567"), ("umlauts", "äöüäöüä"), ("long", "12345678")]);
        assert_eq!(redacted(&redactor, "1234567 äöüäöüä"), "1234567 äöüäöüä");
        assert_eq!(redacted(&redactor, "12345678"), "[REDACTED:long]");
    }

    #[test]
    fn a_value_is_found_as_a_number_and_within_json_text() {
        let redactor = knowing(&[("code", "12345678"), ("key", "line one\n\"two\"")]);
        let mut value = json!({ "n": 12_345_678, "other": 12.5, "raw": "line one\n\"two\"",
            "json": json!({ "key": "line one\n\"two\"" }).to_string() });
        redactor.redact(&mut value);
        let redacted = json!({ "n": "[REDACTED:code]", "other": 12.5, "raw": "[REDACTED:key]",
            "json": "{\"key\":\"[REDACTED:key]\"}" });
        assert_eq!(value, redacted);
    }

    #[test]
    fn a_value_that_comes_in_pieces_is_told_in_none_of_them() {
        let redactor = knowing(&[("api", "hünter2-hunter2"), ("other", "ter2-quite-long")]);
        for said in
            ["say hünter2-hunter2!", "hünter2-hünter2-hunter2", "hünter2-hunter2-quite-long"]
        {
            let (mut written, mut taken) = (String::new(), String::new());
            for letter in said.chars() {
                written.push(letter);
                taken.push_str(&redactor.take_recordable(&mut written));
                assert!(!taken.contains("hunter2"), "{taken}");
            }
            redactor.redact_text(&mut written);
            taken.push_str(&written);
            assert_eq!(taken, redacted(&redactor, said));
        }
    }

    #[test]
    fn only_what_may_be_the_beginning_of_a_value_is_held_back() {
        let redactor = knowing(&[("api", "hunter2-hunter2")]);
        let mut written = "we went to hunt".to_owned();
        assert_eq!(redactor.take_recordable(&mut written), "we went to ");
        written.push_str(" boars");
        assert_eq!(
            (redactor.take_recordable(&mut written).as_str(), written.as_str()),
            ("hunt boars", "")
        );
        assert_eq!(Redactor::default().take_recordable(&mut "hunt".to_owned()), "hunt");
    }

    #[test]
    fn nothing_shows_a_value_by_accident() {
        let secret = SecretText::new("hunter2-hunter2".to_owned());
        let redactor = knowing(&[("api", "hunter2-hunter2")]);
        assert!(!format!("{secret:?} {redactor:?}").contains("hunter2"));
        let refused = serde_json::from_value::<SecretText>(json!(8_675_309));
        assert_eq!(
            refused.map_err(|error| error.to_string()).err().as_deref(),
            Some("must be a text")
        );
    }
}
