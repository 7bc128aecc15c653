//! The publisher keys that this host trusts, each for the names that it may sign.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256};

use callboard_protocol::{PackName, hex};

/// A public key with the packs that it may sign.
#[derive(Debug, Clone)]
pub struct TrustedKey {
    id: String,
    key: VerifyingKey,
    /// Names of packs, or beginnings of names that end in `.*`.
    namespaces: Vec<String>,
}

/// Text that is no public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {id}: {why}")]
pub struct KeyTextError {
    pub id: String,
    pub why: &'static str,
}

/// What every Ed25519 public key begins with in DER (RFC 8410).
pub(crate) const SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl TrustedKey {
    /// Reads a key as registries publish it: PEM, or the base64 inside the PEM.
    pub fn parse(id: &str, text: &str, namespaces: &[&str]) -> Result<Self, KeyTextError> {
        let wrong = |why| KeyTextError { id: id.to_owned(), why };
        let body: String = text
            .lines()
            .filter(|line| !line.starts_with("-----"))
            .flat_map(|line| line.chars().filter(|c| !c.is_whitespace()))
            .collect();
        let der = STANDARD.decode(body).map_err(|_| wrong("is not base64"))?;
        let key = der.strip_prefix(&SPKI_PREFIX).and_then(|key| <&[u8; 32]>::try_from(key).ok());
        let key = key.ok_or_else(|| wrong("is not an Ed25519 public key"))?;
        let key =
            VerifyingKey::from_bytes(key).map_err(|_| wrong("is not a point on the curve"))?;
        let namespaces = namespaces.iter().map(|&namespace| namespace.to_owned()).collect();
        Ok(Self { id: id.to_owned(), key, namespaces })
    }

    /// The same key under the name that follows from the key itself, as `packs sign` uses it.
    #[must_use]
    pub fn under_its_own_name(self) -> Self {
        Self { id: key_id(&self.key), ..self }
    }

    pub(crate) fn may_sign(&self, name: &PackName) -> bool {
        self.namespaces.iter().any(|namespace| match namespace.strip_suffix(".*") {
            Some(prefix) => {
                let below = name.as_str().strip_prefix(prefix);
                below.is_some_and(|rest| rest.starts_with('.'))
            }
            None => namespace == name.as_str(),
        })
    }

    /// Strictly: a signature that only some verifiers accept proves nothing.
    pub(crate) fn signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// A name for a key that follows from the key itself.
pub(crate) fn key_id(key: &VerifyingKey) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let short = hex(&digest[..8]);
    format!("ed25519-{short}")
}

/// The OpenWOP registry's signing keys, as it publishes them.
const OPENWOP: [(&str, &str, &[&str]); 4] = [
    (
        "openwop-registry-root",
        "MCowBQYDK2VwAyEA42maVR4n7j7QZdwVRfc719xLEkbxcHG5vrzmgTIxiJk=",
        OPENWOP_NAMES,
    ),
    (
        "openwop-team-1",
        "MCowBQYDK2VwAyEAORLpnWQX+LXPEMbzfru6TnEolAq5bkg+mIcuoggEe/w=",
        OPENWOP_NAMES,
    ),
    (
        "myndhyve-internal-1",
        "MCowBQYDK2VwAyEA5XihacGwwLKh81kw+roVGpyFsLEoQExMG8+x0WrW5pU=",
        &["vendor.myndhyve.*"],
    ),
    (
        "community-openwop-team-demo-1",
        "MCowBQYDK2VwAyEA5nHHFzyiP6MQJZAjA7ssPCea8ifQ+DjuOzWmcN1/SS8=",
        &["community.openwop-team.demo"],
    ),
];
const OPENWOP_NAMES: &[&str] =
    &["core.openwop.*", "community.openwop-team.*", "vendor.openwop.*", "vendor.openwop-app.*"];

/// Keys by id.
#[derive(Debug, Clone, Default)]
pub struct TrustedKeys(BTreeMap<String, TrustedKey>);

impl TrustedKeys {
    /// Trusts no key.
    pub fn none() -> Self {
        Self::default()
    }

    /// Trusts the publishers of the OpenWOP registry.
    pub fn built_in() -> Self {
        let keys = OPENWOP.iter().filter_map(|(id, key, names)| {
            // A test holds that all of them can be read.
            TrustedKey::parse(id, key, names).ok()
        });
        keys.fold(Self::none(), Self::with)
    }

    /// A later key replaces an earlier one of the same id.
    #[must_use]
    pub fn with(mut self, key: TrustedKey) -> Self {
        self.0.insert(key.id.clone(), key);
        self
    }

    pub(crate) fn find(&self, id: &str) -> Option<&TrustedKey> {
        self.0.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_built_in_keys_can_be_read() {
        assert_eq!(TrustedKeys::built_in().0.len(), OPENWOP.len());
    }

    #[test]
    fn a_namespace_covers_what_is_below_it_and_nothing_beside_it() {
        let keys = TrustedKeys::built_in();
        let may = |id: &str, name: &str| {
            keys.find(id).is_some_and(|key| key.may_sign(&name.parse().unwrap()))
        };
        assert!(may("openwop-team-1", "core.openwop.agents.react"));
        assert!(!may("openwop-team-1", "core.openwopper.react"));
        assert!(!may("myndhyve-internal-1", "core.openwop.agents.react"));
        assert!(may("community-openwop-team-demo-1", "community.openwop-team.demo"));
        assert!(!may("community-openwop-team-demo-1", "community.openwop-team.demo.more"));
    }

    #[test]
    fn what_is_no_key_is_named() {
        for (text, why) in [
            ("no base64!", "is not base64"),
            ("AAAA", "is not an Ed25519 public key"),
            (
                "MCowBQYDK2VwAyEAAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                "is not a point on the curve",
            ),
        ] {
            let error = TrustedKey::parse("k", text, &[]).map(|_| ()).unwrap_err();
            assert_eq!(error, KeyTextError { id: "k".to_owned(), why });
        }
    }
}
