//! The digest by which a call's arguments are compared without being shown.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use callboard_protocol::hex;

use callboard_core::redact;

/// The protocol's `argsHash`: SHA-256, in hexadecimal, of the canonical JSON of the arguments. Secrets are taken
/// out first: `hide` removes those that are known by value, and what looks like a credential goes in any case,
/// so that secrets cannot be guessed by testing against the digest.
pub fn args_hash(arguments: &Value, hide: impl FnOnce(&mut Value)) -> String {
    let mut shown = arguments.clone();
    hide(&mut shown);
    redact(&mut shown);
    // Values that were parsed from JSON always have a canonical form; a plain one still hashes the same value the same.
    let canonical =
        serde_json_canonicalizer::to_vec(&shown).unwrap_or_else(|_| shown.to_string().into_bytes());
    hex(Sha256::digest(canonical))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(arguments: &Value) -> String {
        args_hash(arguments, |_| {})
    }

    #[test]
    fn no_arguments_have_the_protocols_digest() {
        let digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(hash(&json!({})), digest);
    }

    #[test]
    fn the_digest_is_of_the_value_not_of_its_spelling() {
        let spelt: Value = serde_json::from_str(r#"{"b":1.0,"a":"\u00e9"}"#).unwrap();
        assert_eq!(hash(&spelt), hash(&json!({ "a": "é", "b": 1 })));
        assert_ne!(hash(&spelt), hash(&json!({ "a": "é", "b": 2 })));
    }

    /// A-60.
    #[test]
    fn two_calls_that_differ_in_a_secret_have_one_digest() {
        let with = |secret: &str| json!({ "url": "x", "key": secret });
        let looks_like_one = |tail: &str| with(&format!("sk-{tail}{}", "0123456789abcdef"));
        assert_eq!(hash(&looks_like_one("aaaa")), hash(&looks_like_one("bbbb")));

        let hide = |secret: &'static str| {
            move |value: &mut Value| {
                let text = value["key"].as_str().unwrap_or_default();
                value["key"] = text.replace(secret, "[REDACTED:mail]").into();
            }
        };
        assert_eq!(
            args_hash(&with("correct horse"), hide("correct horse")),
            args_hash(&with("battery staple"), hide("battery staple")),
        );
        assert_ne!(hash(&with("correct horse")), hash(&with("battery staple")));
    }
}
