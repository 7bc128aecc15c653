//! Keys that the operator sets by flag: `KEY[=TENANT[/WORKSPACE][+scope…]]`.

use std::collections::BTreeSet;
use std::str::FromStr;

use callboard_engine::StoredKey;
use callboard_protocol::{Tenant, Timestamp, Workspace, hex};

use super::DEFAULT_TENANT;
use super::text::{self, KeyText};
use crate::scopes;
use crate::v2::id::is_tenant;

/// One configured key. Debugging it does not show the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticKey {
    text: KeyText,
    realm: Realm,
    /// None is every scope.
    scopes: Option<BTreeSet<String>>,
}

/// Whose key it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Realm {
    tenant: Tenant,
    workspace: Option<Workspace>,
}

/// A configured key that cannot be read. Says nothing of the secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StaticKeyError {
    #[error("the key is empty")]
    Empty,
    #[error("the key holds a space or a character that no HTTP header carries")]
    NotSendable,
    #[error("the tenant or workspace is empty")]
    EmptyRealm,
    #[error(
        "{0:?} cannot be part of an id: a tenant or workspace has up to 128 letters, digits, and . _ ~ -"
    )]
    Unwritable(String),
    #[error("unknown scope {0:?}")]
    UnknownScope(String),
}

impl FromStr for StaticKey {
    type Err = StaticKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, grant) = text.split_once('=').unwrap_or((text, DEFAULT_TENANT));
        if key.is_empty() {
            return Err(StaticKeyError::Empty);
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(StaticKeyError::NotSendable);
        }
        let mut parts = grant.split('+');
        let realm = parse_realm(parts.next().unwrap_or_default())?;
        let scopes =
            scopes::known(parts).map_err(|unknown| StaticKeyError::UnknownScope(unknown.0))?;
        let scopes = (!scopes.is_empty()).then_some(scopes);
        Ok(Self { text: KeyText::new(key.to_owned()), realm, scopes })
    }
}

fn parse_realm(text: &str) -> Result<Realm, StaticKeyError> {
    let (tenant, workspace) = match text.split_once('/') {
        Some((tenant, workspace)) => (tenant, Some(workspace)),
        None => (text, None),
    };
    if tenant.is_empty() || workspace == Some("") {
        return Err(StaticKeyError::EmptyRealm);
    }
    if let Some(name) =
        [Some(tenant), workspace].into_iter().flatten().find(|name| !is_tenant(name))
    {
        return Err(StaticKeyError::Unwritable(name.to_owned()));
    }
    Ok(Realm { tenant: tenant.into(), workspace: workspace.map(Into::into) })
}

impl StaticKey {
    /// The secret, for the one who must see it.
    pub fn reveal(&self) -> &str {
        self.text.reveal()
    }

    /// The id stays with the key, whatever its position among the others. Ids are public: a few bytes of a digest keep keys
    /// apart, and lead back to none that was made by chance.
    pub(super) fn into_stored(self) -> StoredKey {
        let mark = text::digest(&format!("static key {}", self.text.reveal()));
        StoredKey {
            id: format!("static-{}", hex(&mark[..4])).into(),
            name: "configured".to_owned(),
            tenant: self.realm.tenant,
            workspace: self.realm.workspace,
            scopes: self.scopes,
            test: self.text.is_test(),
            digest: self.text.digest(),
            created_at: Timestamp::default(),
            expires_at: None,
            revoked_at: None,
            made_by: None,
            votes_as: None,
            roles: BTreeSet::new(),
            issuer: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StaticKey, StaticKeyError> {
        text.parse()
    }

    fn key(text: &str, tenant: &str, workspace: Option<&str>, scopes: &[&str]) -> StaticKey {
        let scopes: BTreeSet<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        StaticKey {
            text: KeyText::new(text.to_owned()),
            realm: Realm { tenant: tenant.into(), workspace: workspace.map(Into::into) },
            scopes: (!scopes.is_empty()).then_some(scopes),
        }
    }

    #[test]
    fn every_part_after_the_key_may_be_left_out() {
        for (text, expected) in [
            ("k1", key("k1", "default", None, &[])),
            ("k1=acme", key("k1", "acme", None, &[])),
            ("k1=acme/ops", key("k1", "acme", Some("ops"), &[])),
            ("k1=acme+runs:read", key("k1", "acme", None, &["runs:read"])),
            (
                "k1=acme/ops+runs:read+admin",
                key("k1", "acme", Some("ops"), &["admin", "runs:read"]),
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, error) in [
            ("", StaticKeyError::Empty),
            ("=acme", StaticKeyError::Empty),
            ("a b", StaticKeyError::NotSendable),
            ("k=", StaticKeyError::EmptyRealm),
            ("k=acme/", StaticKeyError::EmptyRealm),
            ("k=ac me", StaticKeyError::Unwritable("ac me".to_owned())),
            ("k=acme/o:ps", StaticKeyError::Unwritable("o:ps".to_owned())),
            ("k=acme+runs:reed", StaticKeyError::UnknownScope("runs:reed".to_owned())),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }
}
