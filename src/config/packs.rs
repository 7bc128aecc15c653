//! `[packs]`: what an operator decides about packs.

use callboard_agents::{Host, Policy, TrustedKey, TrustedKeys};

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packs {
    /// Capabilities that a pack may ask for and not get.
    pub(crate) degrade: Vec<String>,
    /// Addresses that packs may be fetched from.
    pub(crate) registries: Vec<String>,
    pub(crate) keys: Vec<Key>,
}

/// A publisher beside those that are built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    id: String,
    key: String,
    namespaces: Vec<String>,
    place: String,
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
    const KEYS: [&str; 3] = ["degrade", "registries", "keys"];

    /// By what this host judges packs.
    pub(crate) fn policy(&self) -> Result<Policy, CommandError> {
        let mut keys = TrustedKeys::built_in();
        for Key { id, key, namespaces, place } in &self.keys {
            let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
            let key = TrustedKey::parse(id, key, &namespaces).map_err(|error| {
                CommandError::usage(format!("{place}: {error}"))
                    .hint("write the public key as PEM, or the base64 inside the PEM")
            })?;
            keys = keys.with(key);
        }
        let host = Host { degrade: self.degrade.iter().cloned().collect(), ..Host::default() };
        Ok(Policy { keys, host, ..Policy::default() })
    }
}

impl Source<'_> {
    pub(super) fn packs(&self, value: &Value<'_>) -> Result<Packs, CommandError> {
        let table = self.section(value, "packs")?;
        let mut packs = Packs::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "degrade" => packs.degrade = self.texts(value, "packs.degrade")?,
                "registries" => packs.registries = self.texts(value, "packs.registries")?,
                "keys" => packs.keys = self.keys(value)?,
                name => {
                    let path = format!("packs.{name}");
                    return Err(self.unknown(key.span().start, &path, name, &Packs::KEYS));
                }
            }
        }
        Ok(packs)
    }

    fn keys(&self, value: &Value<'_>) -> Result<Vec<Key>, CommandError> {
        let Some(items) = value.get_ref().as_array() else {
            return Err(self
                .wrong(value, "packs.keys", "a list")
                .hint("write each key below a line [[packs.keys]]"));
        };
        items.iter().map(|item| self.key(item)).collect()
    }

    fn key(&self, item: &Value<'_>) -> Result<Key, CommandError> {
        let Some(table) = item.get_ref().as_table() else {
            return Err(self.wrong(item, "packs.keys", "a list of sections"));
        };
        let place = self.place(item.span().start);
        let mut key = Key { id: String::new(), key: String::new(), namespaces: Vec::new(), place };
        for (name, value) in table {
            match name.get_ref().as_ref() {
                "id" => key.id = self.text(value, "packs.keys.id")?,
                "key" => key.key = self.text(value, "packs.keys.key")?,
                "namespaces" => key.namespaces = self.texts(value, "packs.keys.namespaces")?,
                other => {
                    let path = format!("packs.keys.{other}");
                    let known = ["id", "key", "namespaces"];
                    return Err(self.unknown(name.span().start, &path, other, &known));
                }
            }
        }
        if key.id.is_empty() || key.key.is_empty() || key.namespaces.is_empty() {
            let what = format!("{}: a key of packs needs id, key and namespaces", key.place);
            return Err(CommandError::usage(what)
                .hint("namespaces are names of packs, or beginnings of names that end in .*"));
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<Packs, String> {
        Config::parse("c.toml", text).map(|config| config.packs).map_err(|error| error.what)
    }

    #[test]
    fn publishers_registries_and_what_may_be_missing_are_read() {
        let text = "[packs]\ndegrade = []\nregistries = [\"https://packs.example\"]\n
            [[packs.keys]]\nid = \"acme-1\"\nnamespaces = [\"vendor.acme.*\"]
            key = \"MCowBQYDK2VwAyEAORLpnWQX+LXPEMbzfru6TnEolAq5bkg+mIcuoggEe/w=\"\n";
        let packs = read(text).unwrap();
        assert_eq!((packs.degrade.len(), packs.keys.len()), (0, 1));
        assert_eq!(packs.registries, ["https://packs.example"]);
        assert!(packs.policy().unwrap().host.degrade.is_empty());
        assert_eq!(read(""), Ok(Packs::default()));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, expected) in [
            (
                "[packs]\ndegrade = 3",
                "c.toml:2: packs.degrade must be a list of texts, not an integer",
            ),
            ("[packs]\ndegrade = [3]", "c.toml:2: packs.degrade must be text, not an integer"),
            ("[packs]\ntrust = []", "c.toml:2: unknown key packs.trust"),
            ("packs = 1", "c.toml:1: packs must be a section, not an integer"),
            ("[[packs.keys]]\nid = \"a\"", "c.toml:1: a key of packs needs id, key and namespaces"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
        let text = "[[packs.keys]]\nid = \"a\"\nkey = \"x\"\nnamespaces = [\"vendor.a.*\"]";
        let wrong = read(text).unwrap().policy().map(|_| ()).unwrap_err();
        assert_eq!(wrong.what, "c.toml:1: key a: is not base64");
    }
}
