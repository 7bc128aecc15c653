//! The identity of an outward call, and what is known of it before and after it is made.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use callboard_core::{Attempt, redact};
use callboard_protocol::{RunId, Tenant, Timestamp};

use crate::store::Claim;

/// The protocol's `logicalInvocationId`. No attempt is in it, so a retry is the same call; the visit
/// is, so a loop that comes back makes another. It also goes out as the provider's idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectId(String);

impl EffectId {
    /// The `index`-th call of a visit to a node.
    pub fn new(
        tenant: &Tenant,
        run: &RunId,
        attempt: &Attempt,
        index: u32,
        provider: &str,
    ) -> Self {
        let ordinal = ordinal(attempt, index);
        let parts = [tenant.as_str(), run.as_str(), attempt.node.as_str(), &ordinal, provider];
        Self(digest("openwop:activity:v2", &parts))
    }

    /// An id as it was stored.
    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a call stands in its run, whatever it asks of whichever service: the key of its record. A visit that
/// comes to ask something else in the same place therefore finds what was asked there before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectKey(String);

impl EffectKey {
    /// The `index`-th call of a visit to a node.
    pub fn new(tenant: &Tenant, run: &RunId, attempt: &Attempt, index: u32) -> Self {
        let ordinal = ordinal(attempt, index);
        let parts = [tenant.as_str(), run.as_str(), attempt.node.as_str(), &ordinal];
        Self(digest("callboard:effect", &parts))
    }

    /// A key as it was stored.
    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The `index`-th call of a visit, as one number.
fn ordinal(attempt: &Attempt, index: u32) -> String {
    ((u64::from(attempt.visit) << 32) | u64::from(index)).to_string()
}

fn digest(domain: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(domain);
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    BASE64_URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// By which two requests are compared without either being kept.
///
/// Stored as `<recipe>:<digest>`. A reader compares digests of its own recipe only: of others it learns nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestDigest(String);

/// Which parts of requests are digested, and how. It goes up when either changes, so that an upgrade ends no run.
const RECIPE: &str = "1";

impl RequestDigest {
    /// The digest of what is asked of whom. What looks like a credential does not count, so that nobody can try
    /// credentials against the digest.
    pub fn of(provider: &str, request: &Value) -> Self {
        let mut request = request.clone();
        redact(&mut request);
        let digest = digest("callboard:request", &[provider, &request.to_string()]);
        Self(format!("{RECIPE}:{digest}"))
    }

    /// A digest as it was stored.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are digests of one request, as far as is known.
    pub fn agrees(&self, other: &Self) -> bool {
        self == other || self.recipe() != other.recipe()
    }

    fn recipe(&self) -> Option<&str> {
        self.0.split_once(':').map(|(recipe, _)| recipe)
    }
}

/// A call that is about to be made, by the holder of its run.
#[derive(Debug, Clone)]
pub struct EffectClaim {
    pub key: EffectKey,
    pub request: RequestDigest,
    pub claim: Claim,
    pub at: Timestamp,
    /// Make the call although an earlier claim is open and its outcome unknown.
    pub repeat: bool,
    /// What is kept with the claim where it is no call: a fact that later attempts of the visit go by.
    pub outcome: Option<String>,
}

/// A call whose outcome is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledEffect {
    /// What was asked.
    pub request: RequestDigest,
    /// As JSON.
    pub outcome: String,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nobody has made the call: the claimant may.
    Fresh,
    Known(SettledEffect),
    /// The call was claimed then, for this request, and its outcome was never recorded.
    Unknown {
        request: RequestDigest,
        since: Timestamp,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(visit: u32, number: u32, index: u32, provider: &str) -> EffectId {
        let attempt = Attempt { node: "n".into(), visit, number };
        EffectId::new(&"t".into(), &"r".into(), &attempt, index, provider)
    }

    /// R65.
    #[test]
    fn a_retry_is_the_same_call_and_a_repetition_is_another() {
        assert_eq!(id(0, 0, 0, "mail"), id(0, 7, 0, "mail"));
        let others = [id(0, 0, 1, "mail"), id(1, 0, 0, "mail"), id(0, 0, 0, "chat")];
        assert!(others.iter().all(|other| *other != id(0, 0, 0, "mail")));
    }

    #[test]
    fn a_place_is_known_whomever_its_call_reaches() {
        let key = |visit, number, index| {
            let attempt = Attempt { node: "n".into(), visit, number };
            EffectKey::new(&"t".into(), &"r".into(), &attempt, index)
        };
        assert_eq!(key(0, 0, 0), key(0, 7, 0));
        assert!(key(0, 0, 0) != key(0, 0, 1) && key(0, 0, 0) != key(1, 0, 0));
    }

    #[test]
    fn requests_agree_unless_one_recipe_tells_them_apart() {
        let of = |provider, n| RequestDigest::of(provider, &serde_json::json!({ "n": n }));
        assert!(of("mail", 1).agrees(&of("mail", 1)));
        assert!(!of("mail", 1).agrees(&of("mail", 2)) && !of("mail", 1).agrees(&of("chat", 1)));
        assert!(RequestDigest::stored("0:x".to_owned()).agrees(&of("mail", 1)));
        let secret = |tail: &str| format!("sk-{tail}0123456789abcdef");
        let with = |tail| RequestDigest::of("mail", &serde_json::json!({ "key": secret(tail) }));
        assert_eq!(with("aaaa"), with("bbbb"));
    }

    #[test]
    fn the_id_is_the_protocols_digest() {
        // base64url without padding of sha256("openwop:activity:v2\0t\0r\0n\00\0mail")
        assert_eq!(id(0, 0, 0, "mail").as_str(), "W28HqboteHPCDc5SCJ80Wp5cT0x5Ikm1dAZ7q7hbLSc");
    }
}
