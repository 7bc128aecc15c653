//! Finds text that looks like a credential wherever it stands, and blots it out.
//!
//! The definition's own marks are the first net (`mask`), values that a run has resolved the second (`known`).
//! This one is for what nobody marked: it hangs before every copy that leaves the host by other ways than the log,
//! and before the inputs are recorded in the log.

mod command;
mod known;
mod marks;
mod suspicion;

pub use known::{Redactor, SecretText};
pub use marks::respell_marks;

use std::borrow::Cow;
use std::sync::LazyLock;

use callboard_protocol::Object;
use regex::Regex;
use serde_json::Value;

use suspicion::is_worth_a_look;

/// What stands for a credential.
const REDACTED: &str = "[REDACTED]";

/// Private keys, bearer tokens, JSON web tokens, passwords in URLs, and what providers begin their keys with.
const SHAPES: &str = r"(?x)
    -----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY-----(?s:.*?)(?:-----END\ [A-Z0-9\ ]*PRIVATE\ KEY-----|\z)
  | \b(?i:bearer)\s+[A-Za-z0-9._~+/=-]{16,}
  | \beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+
  | ://[^/\s:@]+:[^/\s@]+@
  | \b(?:sk|pk|rk)[-_][A-Za-z0-9][A-Za-z0-9_-]{14,}
  | \b(?:gh[pousr]|github_pat|glpat|hf|npm|dop_v1|shpat|whsec)[-_][A-Za-z0-9_-]{16,}
  | \b(?:AKIA|ASIA)[A-Z0-9]{12,}
  | \bx(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,}
  | \bAIza[A-Za-z0-9_-]{20,}
  | \bya29\.[A-Za-z0-9_-]{16,}
  | \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
  | \bcred_[A-Za-z0-9_-]{12,}
  | \bcb(?:test)?_[A-Za-z0-9_-]{32,}
";

static SECRET: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(SHAPES).ok());

/// Blots out every credential in a text.
pub fn redact_text(text: &str) -> String {
    clean(text).into_owned()
}

fn clean(text: &str) -> Cow<'_, str> {
    if !is_worth_a_look(text) {
        return Cow::Borrowed(text);
    }
    // Without the pattern nothing can be recognised, so nothing passes.
    SECRET.as_ref().map_or(Cow::Borrowed(REDACTED), |secret| secret.replace_all(text, REDACTED))
}

/// Blots out every credential in a value, names of fields included.
pub fn redact(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = clean(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => redact_fields(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The same for the fields of an object.
pub fn redact_fields(fields: &mut Object) {
    fields.values_mut().for_each(redact);
    if fields.keys().any(|name| is_suspect(name)) {
        *fields = std::mem::take(fields)
            .into_iter()
            .map(|(name, field)| (redact_text(&name), field))
            .collect();
    }
}

/// The credentials that stand in bags of values and in texts, for code that must not repeat them. Nothing is copied but
/// what is found.
pub(crate) fn credentials_in<'a>(
    bags: impl IntoIterator<Item = &'a Object>,
    texts: &[String],
) -> Redactor {
    let mut found = Redactor::default();
    for (name, field) in bags.into_iter().flatten() {
        look_in_text(name, &mut found);
        look_in(field, &mut found);
    }
    texts.iter().for_each(|text| look_in_text(text, &mut found));
    found
}

fn look_in(value: &Value, found: &mut Redactor) {
    match value {
        Value::String(text) => look_in_text(text, found),
        Value::Array(items) => items.iter().for_each(|item| look_in(item, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                look_in_text(name, found);
                look_in(field, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn look_in_text(text: &str, found: &mut Redactor) {
    if !is_worth_a_look(text) {
        return;
    }
    let Some(secret) = SECRET.as_ref() else {
        return found.learn_as(REDACTED, &SecretText::new(text.to_owned()));
    };
    for credential in secret.find_iter(text) {
        found.learn_as(REDACTED, &SecretText::new(credential.as_str().to_owned()));
    }
}

fn is_suspect(text: &str) -> bool {
    is_worth_a_look(text) && SECRET.as_ref().is_none_or(|secret| secret.is_match(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Put together at run time, so that scanners of source code have nothing to find.
    fn secrets() -> Vec<String> {
        let tail = "CANARY-openwop-NEVER-SECRET-0aB8mYjPpQe7";
        let letters = "abcdefghijKLMNOPQRST0123456789abcdef";
        let mut secrets: Vec<String> =
            ["sk-", "sk-ant-", "AIza", "cred_", "github_pat_", "glpat-", "cb_", "cbtest_"]
                .iter()
                .map(|prefix| format!("{prefix}{tail}"))
                .collect();
        secrets.extend(
            ["ghp_", "hf_", "rk_live_", "pk_live_", "sk_", "xoxb-1-", "xapp-1-", "ya29.", "npm_"]
                .map(|prefix| format!("{prefix}{letters}")),
        );
        secrets.extend(
            ["dop_v1_", "shpat_", "whsec_", "gho_"].map(|prefix| format!("{prefix}{letters}")),
        );
        secrets.push(format!("SG.{letters}.{letters}"));
        secrets.extend(["AKIA", "ASIA"].map(|prefix| format!("{prefix}{}", "0123456789ABCDEF")));
        secrets.push(format!("eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOnRydWV9.{tail}"));
        secrets.push(format!("Bearer {letters}"));
        secrets.push(format!("-----BEGIN RSA {} KEY-----\nMIIB\nabc\n", "PRIVATE"));
        secrets
    }

    /// R74.
    #[test]
    fn credentials_do_not_survive_in_any_place() {
        for secret in secrets() {
            let mut value = json!({
                "plain": secret,
                "within": format!("call it with {secret}\u{a0}please"),
                "deep": [{ &secret: [secret] }],
            });
            let mut told = value.clone();
            credentials_in(value.as_object(), &[]).redact(&mut told);
            redact(&mut value);
            assert_eq!(told, value, "what is looked for is what is found");
            let text = value.to_string();
            let core = &secret[secret.len() / 2..];
            assert!(!text.contains(core), "{secret} in {text}");
            assert!(text.contains(REDACTED));
        }
    }

    #[test]
    fn passwords_in_addresses_are_blotted_out_and_the_rest_stays() {
        assert_eq!(
            redact_text("postgres://me:hunter2@db/prod and more"),
            "postgres[REDACTED]db/prod and more"
        );
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "the bearer of this letter",
            "a risk-management-framework-for-everybody",
            "run_0199f2c4-aaaa-bbbb-cccc-0123456789ab",
            "https://example.com/a?b=c:d@e",
            "sk-short",
            "node.completed",
            "2025-11-16T00:00:00.007Z",
        ] {
            assert_eq!(redact_text(text), text);
            let mut value = json!({ text: text });
            redact(&mut value);
            assert_eq!(value, json!({ text: text }));
        }
    }
}
