//! Signed links to one interrupt: who holds one may look, or look and answer, until it expires.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_core::InterruptView;
use callboard_protocol::{NodeId, RunId, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Half an hour, the protocol's default.
const LIFE_MS: u64 = 30 * 60 * 1_000;

/// Signs links and knows its own.
#[derive(Clone)]
pub struct LinkKey([u8; 32]);

impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey(…)")
    }
}

/// What a link says. Signed, not secret: its holder can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) run_id: RunId,
    pub(crate) node_id: NodeId,
    pub(crate) interrupt_id: String,
    pub(crate) expires_at: Timestamp,
    pub(crate) intent: Intent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Intent {
    Resolve,
    Inspect,
}

impl Link {
    /// A link that answers, for as long as links live but never beyond the interrupt's own deadline.
    pub(crate) fn to(run: &RunId, interrupt: &InterruptView, at: Timestamp) -> Self {
        let life = at.plus_millis(LIFE_MS);
        Self {
            run_id: run.clone(),
            node_id: interrupt.node.clone(),
            interrupt_id: interrupt.id.clone(),
            expires_at: interrupt.expires_at.map_or(life, |deadline| deadline.min(life)),
            intent: Intent::Resolve,
        }
    }
}

impl LinkKey {
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The link as text: what it says, a dot, and the signature, both in URL-safe base64.
    pub(crate) fn sign(&self, link: &Link) -> Option<String> {
        let said = URL_SAFE_NO_PAD.encode(serde_json::to_vec(link).ok()?);
        let signature = self.mac(&said)?.finalize().into_bytes();
        Some(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Reads a link that this key signed; any other text is none.
    pub(crate) fn read(&self, token: &str) -> Option<Link> {
        let (said, signature) = token.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        // Compared in constant time.
        self.mac(said)?.verify_slice(&signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(said).ok()?).ok()
    }

    fn mac(&self, said: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(said.as_bytes());
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        Link {
            run_id: "run_1".into(),
            node_id: "gate".into(),
            interrupt_id: "run_1-2".into(),
            expires_at: Timestamp::from_millis(5),
            intent: Intent::Resolve,
        }
    }

    #[test]
    fn only_what_this_key_signed_reads_back() {
        let key = LinkKey::new([1; 32]);
        let token = key.sign(&link()).unwrap_or_default();
        assert_eq!(key.read(&token), Some(link()));
        assert_eq!(LinkKey::new([2; 32]).read(&token), None);
        let (said, signature) = token.split_once('.').unwrap_or_default();
        let other = URL_SAFE_NO_PAD.encode(
            serde_json::to_vec(&Link { intent: Intent::Inspect, ..link() }).unwrap_or_default(),
        );
        for forged in
            [format!("{other}.{signature}"), said.to_owned(), format!("{said}."), String::new()]
        {
            assert_eq!(key.read(&forged), None, "{forged}");
        }
    }
}
