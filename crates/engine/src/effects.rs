//! The identity of an outward call, and what is known of it before and after it is made.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use callboard_core::Attempt;
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
        let ordinal = (u64::from(attempt.visit) << 32) | u64::from(index);
        let ordinal = ordinal.to_string();
        let parts = [tenant.as_str(), run.as_str(), attempt.node.as_str(), &ordinal, provider];
        let mut hash = Sha256::new();
        hash.update("openwop:activity:v2");
        for part in parts {
            hash.update([0]);
            hash.update(part);
        }
        Self(BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()))
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

/// A call that is about to be made, by the holder of its run.
#[derive(Debug, Clone)]
pub struct EffectClaim {
    pub id: EffectId,
    pub claim: Claim,
    pub at: Timestamp,
    /// Make the call although an earlier claim is open and its outcome unknown.
    pub repeat: bool,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nobody has made the call: the claimant may.
    Fresh,
    /// Its outcome, as JSON.
    Known(String),
    /// Somebody claimed the call then and never told what came of it.
    Unknown { since: Timestamp },
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
    fn the_id_is_the_protocols_digest() {
        // base64url without padding of sha256("openwop:activity:v2\0t\0r\0n\00\0mail")
        assert_eq!(id(0, 0, 0, "mail").as_str(), "W28HqboteHPCDc5SCJ80Wp5cT0x5Ikm1dAZ7q7hbLSc");
    }
}
