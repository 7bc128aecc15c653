//! A token as it was sent: its three parts, how it says it is signed, and whether it is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_protocol::Object;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

/// Longer than what issuers give, with room for many groups.
const LONGEST: usize = 16 * 1024;

/// What is wrong with a token. Nothing of the token is repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("the token cannot be read")]
    Unreadable,
    #[error("the token's issuer is none of this host's")]
    UnknownIssuer,
    #[error("the token must be signed with RS256, PS256, ES256 or EdDSA")]
    Algorithm,
    #[error("the token is of a kind that is not taken here")]
    Kind,
    #[error("the token is signed with a key that its issuer does not publish")]
    UnknownKey,
    #[error("the token's signature does not fit")]
    Signature,
    #[error("the token is not for this host: another audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token does not count yet")]
    NotYet,
    #[error("the token lacks {0}, or says it in a form that is not understood")]
    Lacks(&'static str),
    /// It is good, and its holder has no place here.
    #[error("{0}")]
    NotHere(String),
    #[error("the issuer's keys cannot be fetched; try again")]
    Away { retry_after: u64 },
}

/// Whether a text is worth reading as a token: three parts, the first of which begins as JSON does.
pub(crate) fn looks_like_token(text: &str) -> bool {
    text.starts_with("eyJ") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// What a token says of itself before anything is checked.
#[derive(Debug)]
pub(super) struct Head<'t> {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    /// Only to find who may have signed it.
    pub(super) issuer: String,
    signed: &'t str,
    signature: &'t str,
    claims: Object,
}

impl<'t> Head<'t> {
    pub(super) fn read(token: &'t str) -> Result<Self, Wrong> {
        if token.len() > LONGEST {
            return Err(Wrong::Unreadable);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Wrong::Unreadable)?;
        let (head, claims) = signed.split_once('.').ok_or(Wrong::Unreadable)?;
        let (head, claims) = (object(head)?, object(claims)?);
        let algorithm = match head.get("alg").and_then(Value::as_str) {
            Some("RS256") => Algorithm::RS256,
            Some("PS256") => Algorithm::PS256,
            Some("ES256") => Algorithm::ES256,
            Some("EdDSA") => Algorithm::EdDSA,
            _ => return Err(Wrong::Algorithm),
        };
        // What must be understood and is not.
        if head.contains_key("crit") {
            return Err(Wrong::Kind);
        }
        let kind = head.get("typ").map(|kind| kind.as_str().unwrap_or_default());
        let kind = kind.map(str::to_ascii_lowercase);
        if !matches!(kind.as_deref(), None | Some("jwt" | "at+jwt" | "application/at+jwt")) {
            return Err(Wrong::Kind);
        }
        let text = |object: &Object, name: &str| {
            object.get(name).and_then(Value::as_str).map(str::to_owned)
        };
        let issuer = text(&claims, "iss").ok_or(Wrong::UnknownIssuer)?;
        Ok(Self { algorithm, kid: text(&head, "kid"), issuer, signed, signature, claims })
    }

    /// Its claims, if this key has signed them.
    pub(super) fn open(&self, key: &DecodingKey) -> Result<Object, Wrong> {
        let signed = self.signed.as_bytes();
        match jsonwebtoken::crypto::verify(self.signature, signed, key, self.algorithm) {
            Ok(true) => Ok(self.claims.clone()),
            Ok(false) | Err(_) => Err(Wrong::Signature),
        }
    }
}

fn object(part: &str) -> Result<Object, Wrong> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Wrong::Unreadable)?;
    serde_json::from_slice(&bytes).map_err(|_| Wrong::Unreadable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(head: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(head), part(claims))
    }

    #[test]
    fn only_signatures_with_public_keys_are_taken() {
        let claims = json!({ "iss": "https://login.example" });
        for alg in [
            json!("none"),
            json!("None"),
            json!("HS256"),
            json!("HS512"),
            json!("RS1"),
            json!(null),
        ] {
            let refused = Head::read(&token(&json!({ "alg": alg }), &claims)).map(|_| ());
            assert_eq!(refused, Err(Wrong::Algorithm), "{alg}");
        }
        for alg in ["RS256", "PS256", "ES256", "EdDSA"] {
            assert!(Head::read(&token(&json!({ "alg": alg, "typ": "JWT" }), &claims)).is_ok());
        }
        let kinds = [
            json!({ "alg": "ES256", "crit": ["b64"] }),
            json!({ "alg": "ES256", "typ": "logout+jwt" }),
        ];
        for head in kinds {
            assert_eq!(Head::read(&token(&head, &claims)).map(|_| ()), Err(Wrong::Kind), "{head}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let head = json!({ "alg": "ES256" });
        let long = token(&head, &json!({ "iss": "i", "x": "x".repeat(LONGEST) }));
        for text in ["", "a.b", "eyJ.eyJ.x", "e30.e30", &long] {
            assert_eq!(Head::read(text).map(|_| ()), Err(Wrong::Unreadable), "{text}");
        }
        assert_eq!(Head::read(&token(&head, &json!({}))).map(|_| ()), Err(Wrong::UnknownIssuer));
        assert!(looks_like_token(&token(&head, &json!({}))));
        assert!(
            !looks_like_token("cb_abc")
                && !looks_like_token("eyJ.x")
                && !looks_like_token("eyJ.a.b.c")
        );
    }
}
