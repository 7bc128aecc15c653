//! Finds text that looks like a credential wherever it stands, and blots it out.
//!
//! The definition's own marks are the first net (`mask`), values that a run has resolved the second (`known`).
//! This one is for what nobody marked: it hangs before every copy that leaves the host by other ways than the log.

mod known;
mod told;

pub use known::{Redactor, SecretText};

use std::sync::LazyLock;

use callboard_protocol::Object;
use regex::Regex;
use serde_json::Value;

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
    // Without the pattern nothing can be told apart, so nothing passes.
    SECRET.as_ref().map_or_else(
        || REDACTED.to_owned(),
        |secret| secret.replace_all(text, REDACTED).into_owned(),
    )
}

/// Blots out every credential in a value, names of fields included.
pub fn redact(value: &mut Value) {
    match value {
        Value::String(text) if is_suspect(text) => *text = redact_text(text),
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => {
            fields.values_mut().for_each(redact);
            if fields.keys().any(|name| is_suspect(name)) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, field)| (redact_text(&name), field))
                    .collect::<Object>();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_suspect(text: &str) -> bool {
    SECRET.as_ref().is_none_or(|secret| secret.is_match(text))
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
            ["ghp_", "hf_", "rk_live_", "xoxb-1-", "ya29."]
                .map(|prefix| format!("{prefix}{letters}")),
        );
        secrets.push(format!("AKIA{}", "0123456789ABCDEF"));
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
            redact(&mut value);
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
