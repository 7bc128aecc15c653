//! What a provider itself says of a call that it did not answer.

use std::fmt;

use callboard_core::redact_text;
use serde_json::Value;

use super::{Message, ModelRequest};

/// As much of it as a failure shows.
const MOST_CHARS: usize = 300;
/// Bodies of errors are read up to here.
const MOST_BYTES: usize = 64 * 1024;
/// So many letters in a row that are those of the request are a repetition of it.
const REPEATED: usize = 24;

/// A provider's own words. They may repeat what was asked, so they have no `Display`, and are shown only where they do
/// not.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderReason(String);

impl fmt::Debug for ProviderReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderReason(…)")
    }
}

impl ProviderReason {
    /// The message within the body of an error, in the forms that providers use.
    pub fn of_body(body: &str) -> Option<Self> {
        let body = body.get(..MOST_BYTES.min(body.len()))?;
        Self::of_value(&serde_json::from_str(body).ok()?)
    }

    /// The same of a body that was read already.
    pub fn of_value(body: &Value) -> Option<Self> {
        let body = body.as_array().and_then(|list| list.first()).unwrap_or(body);
        let error = body.get("error").unwrap_or(body);
        let message = error.as_str().or_else(|| error.get("message")?.as_str())?;
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        (!message.is_empty()).then_some(Self(message))
    }

    /// The words for readers of the run: bounded, without credentials and addresses, and none at all where they
    /// repeat what was asked.
    pub fn shown(&self, request: &ModelRequest) -> Option<String> {
        let words = &self.0;
        let key = request.key.as_ref().is_some_and(|key| words.contains(key.reveal()));
        let repeats = texts(request).any(|asked| repeats(words, asked));
        if key || repeats || words.contains("://") {
            return None;
        }
        let mut shown: String = redact_text(words).chars().take(MOST_CHARS).collect();
        if words.chars().count() > MOST_CHARS {
            shown.push('…');
        }
        Some(shown)
    }
}

fn texts(request: &ModelRequest) -> impl Iterator<Item = &str> {
    let said = request.messages.iter().map(|message| match message {
        Message::User { text } | Message::Assistant { text, .. } => text.as_str(),
        Message::Tool { result } => result.content.as_str(),
    });
    said.chain(request.system.as_deref()).filter(|text| text.len() >= 4)
}

/// Whether words hold all of a short text, or a piece of a long one.
fn repeats(words: &str, asked: &str) -> bool {
    if words.contains(asked) {
        return true;
    }
    let letters: Vec<char> = words.chars().collect();
    letters.windows(REPEATED).any(|piece| asked.contains(&piece.iter().collect::<String>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(asked: &str) -> ModelRequest {
        ModelRequest {
            model: "p/m".parse().expect("a model"),
            system: None,
            messages: vec![Message::User { text: asked.to_owned() }],
            tools: Vec::new(),
            response_schema: None,
            max_output_tokens: 1,
            temperature: None,
            seed: None,
            idempotency_key: String::new(),
            key: None,
            call_prefix: String::new(),
            run: None,
        }
    }

    fn shown(body: &Value, asked: &str) -> Option<String> {
        ProviderReason::of_body(&body.to_string())?.shown(&request(asked))
    }

    #[test]
    fn the_reason_is_found_in_every_form_and_bounded() {
        let why = "max_tokens: 9 > 8, which is the most";
        for body in [
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": why } }),
            json!({ "error": why }),
            json!([{ "error": { "code": 400, "message": why } }]),
            json!({ "message": why }),
        ] {
            assert_eq!(shown(&body, "hello").as_deref(), Some(why), "{body}");
        }
        let long = shown(&json!({ "message": "x".repeat(9_999) }), "hello").expect("words");
        assert_eq!(long.chars().count(), MOST_CHARS + 1);
        assert_eq!(ProviderReason::of_body("<html>busy</html>"), None);
        assert_eq!(ProviderReason::of_body("{\"error\":{}}"), None);
    }

    #[test]
    fn what_was_asked_is_not_repeated_nor_is_a_credential() {
        let plan = "We move the whole office to Lisbon on the first of May.";
        let echo = json!({ "message": format!("bad input: {plan}") });
        assert_eq!(shown(&echo, plan), None);
        let part = json!({ "message": format!("bad input: {}", &plan[3..40]) });
        assert_eq!(shown(&part, plan), None);
        let address = json!({ "message": "see http://10.0.0.7/v1" });
        assert_eq!(shown(&address, plan), None);
        let key = json!({ "message": "Incorrect API key provided: sk-0123456789abcdef0123" });
        let told = shown(&key, plan).expect("words");
        assert!(!told.contains("sk-0123456789abcdef0123"), "{told}");
        let reason = ProviderReason::of_body(&echo.to_string()).expect("a reason");
        assert!(!format!("{reason:?}").contains("Lisbon"));
    }
}
