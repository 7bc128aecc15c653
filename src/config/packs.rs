//! `[packs]`: degraded capabilities, registries and trusted keys of packs.

use serde::Deserialize;

use callboard_agents::{Host, Policy, TrustedKey, TrustedKeys};

/// The section as it was read.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Packs {
    /// Capabilities that a pack may ask for and not get.
    pub(crate) degrade: Vec<String>,
    /// Addresses that packs may be fetched from.
    pub(crate) registries: Vec<String>,
    /// Publishers beside those that are built in.
    keys: Vec<Key>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "KeySection")]
struct Key(TrustedKey);

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct KeySection {
    id: String,
    key: String,
    namespaces: Vec<String>,
}

impl TryFrom<KeySection> for Key {
    type Error = String;

    fn try_from(section: KeySection) -> Result<Self, String> {
        let KeySection { id, key, namespaces } = section;
        if id.is_empty() || key.is_empty() || namespaces.is_empty() {
            return Err("needs id, key and namespaces\n\
                        namespaces are names of packs, or beginnings of names that end in .*"
                .to_owned());
        }
        let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        TrustedKey::parse(&id, &key, &namespaces).map(Self).map_err(|error| {
            format!(
                "cannot be used: {error}\nwrite the public key as PEM, or the base64 inside the PEM"
            )
        })
    }
}

impl Default for Packs {
    fn default() -> Self {
        Self {
            degrade: Host::default().degrade.into_iter().collect(),
            registries: vec!["https://packs.openwop.dev".to_owned()],
            keys: Vec::new(),
        }
    }
}

impl Packs {
    /// By what this host judges packs.
    pub(crate) fn policy(&self) -> Policy {
        let own = self.keys.iter().map(|Key(key)| key.clone());
        let keys = own.fold(TrustedKeys::built_in(), TrustedKeys::with);
        let host = Host { degrade: self.degrade.iter().cloned().collect(), ..Host::default() };
        Policy { keys, host, ..Policy::default() }
    }
}
