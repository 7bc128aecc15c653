//! Signed links to one interrupt: who holds one may look, or look and answer, until it expires.
//!
//! It is written in one of two schemes, one for each major of the protocol, and both count at the addresses of both.
//!
//! A link names the generation of the secret that signed it. The current generation of its run's realm and the one
//! before it count, so that rotating once breaks no link and rotating twice ends all of them.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_core::InterruptView;
use callboard_engine::{
    LinkSecrets, ProjectError, Realm, Recorded, Scope, Secret, SignCallbacks, Store, StoreError,
    TranslatedEvent, Webhook,
};
use callboard_protocol::{Dialect, NodeId, RunId, Timestamp, hex};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

use crate::v2::post;

/// Half an hour, the protocol's default.
const LIFE_MS: u64 = 30 * 60 * 1_000;

/// What a link says. Signed, not secret: its holder can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Link {
    /// The generation of the secret that signs it.
    key_id: u32,
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
            key_id: 0,
            run_id: run.clone(),
            node_id: interrupt.node.clone(),
            interrupt_id: interrupt.id.clone(),
            expires_at: interrupt.expires_at.map_or(life, |deadline| deadline.min(life)),
            intent: Intent::Resolve,
        }
    }
}

/// Begins a token of the second major: the scheme and the only algorithm. The generation of the secret stands next.
const SECOND: &str = "ow2.hs256.";
const GENERATION: &str = "g";

/// A token that was taken apart and not yet believed.
#[derive(Debug)]
pub(crate) struct Claim<'t> {
    /// All that is signed.
    said: &'t str,
    signature: Vec<u8>,
    link: Link,
}

impl<'t> Claim<'t> {
    pub(crate) fn of(token: &'t str) -> Option<Self> {
        let (said, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let (generation, payload) = match said.strip_prefix(SECOND) {
            Some(rest) => {
                let (named, payload) = rest.split_once('.')?;
                (Some(named.strip_prefix(GENERATION)?.parse::<u32>().ok()?), payload)
            }
            None => (None, said),
        };
        let link: Link = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        let agrees = generation.is_none_or(|generation| generation == link.key_id);
        agrees.then_some(Self { said, signature, link })
    }

    /// Whether a text is of the second major's scheme, be it a token or not.
    pub(crate) fn is_of_second(token: &str) -> bool {
        token.starts_with("ow2.")
    }

    /// Whose link this would be, if it is one.
    pub(crate) fn run(&self) -> &RunId {
        &self.link.run_id
    }
}

/// Signs links and knows its own.
#[derive(Debug, Clone)]
pub struct Links(LinkSecrets, Arc<dyn Store>);

impl Links {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(LinkSecrets::new(Arc::clone(&store)), store)
    }

    /// The link as text: what it says, a dot, and the signature, both in URL-safe base64. In the second major the
    /// scheme, the algorithm and the secret's generation stand before them and are signed, too.
    pub(crate) async fn sign(
        &self,
        realm: &Realm,
        link: Link,
        dialect: Dialect,
    ) -> Result<Option<String>, StoreError> {
        let key_id = self.0.link_generation(realm).await?;
        let secret = self.0.link_secret(realm, key_id);
        Ok(sign(&secret, &Link { key_id, ..link }, dialect))
    }

    /// The link, if a secret that still counts has signed it.
    pub(crate) async fn verify(
        &self,
        realm: &Realm,
        claim: Claim<'_>,
    ) -> Result<Option<Link>, StoreError> {
        let current = self.0.link_generation(realm).await?;
        let named = claim.link.key_id;
        let counts = named == current || named.checked_add(1) == Some(current);
        let secret = self.0.link_secret(realm, named);
        // Compared in constant time.
        let is_ours =
            mac(&secret, claim.said).is_some_and(|mac| mac.verify_slice(&claim.signature).is_ok());
        Ok((counts && is_ours).then_some(claim.link))
    }

    /// Signs with a new secret from now on.
    pub(crate) async fn rotate(&self, realm: &Realm) -> Result<u32, StoreError> {
        self.0.rotate_links(realm).await
    }
}

#[async_trait]
impl SignCallbacks for Links {
    async fn token(
        &self,
        realm: &Realm,
        run: &RunId,
        question: &InterruptView,
        (at, dialect): (Timestamp, Dialect),
    ) -> Result<String, StoreError> {
        let token = self.sign(realm, Link::to(run, question, at), dialect).await?;
        token.ok_or_else(|| StoreError::Unavailable("a link cannot be signed".to_owned()))
    }

    /// Derived from what signs the present links, so that its holder can check callbacks and sign no link.
    /// Each workspace has another, so that none can speak for another's runs.
    async fn secret(&self, place: &Scope) -> Result<Secret, StoreError> {
        let realm = place.realm();
        let generation = self.0.link_generation(&realm).await?;
        let purpose = match &place.workspace {
            None => "callbacks".to_owned(),
            Some(workspace) => format!("callbacks/{workspace}"),
        };
        let mac = mac(&self.0.link_secret(&realm, generation), &purpose);
        let mac = mac.ok_or_else(|| {
            StoreError::Unavailable("the secret of callbacks cannot be derived".to_owned())
        })?;
        Ok(Secret::new(hex(mac.finalize().into_bytes())))
    }

    async fn project(
        &self,
        webhook: &Webhook,
        event: &Recorded,
    ) -> Result<Option<TranslatedEvent>, ProjectError> {
        post::event(&self.1, webhook, event).await
    }

    fn project_callback(&self, place: &Scope, body: Value) -> Value {
        post::callback(place.tenant.as_str(), body)
    }
}

fn sign(secret: &[u8; 32], link: &Link, dialect: Dialect) -> Option<String> {
    let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(link).ok()?);
    let said = match dialect {
        Dialect::V1 => payload,
        Dialect::V2 => format!("{SECOND}{GENERATION}{}.{payload}", link.key_id),
    };
    let signature = mac(secret, &said)?.finalize().into_bytes();
    Some(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn mac(secret: &[u8; 32], said: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(said.as_bytes());
    Some(mac)
}

#[cfg(test)]
mod tests {
    use callboard_engine::{InMemoryStore, KeyMode};

    use super::*;

    fn link() -> Link {
        Link {
            key_id: 0,
            run_id: "run_1".into(),
            node_id: "gate".into(),
            interrupt_id: "run_1-2".into(),
            expires_at: Timestamp::from_millis(5),
            intent: Intent::Resolve,
        }
    }

    fn realm(tenant: &str) -> Realm {
        Realm { tenant: tenant.into(), mode: KeyMode::Live }
    }

    async fn read(links: &Links, tenant: &str, token: &str) -> Option<Link> {
        let claim = Claim::of(token)?;
        links.verify(&realm(tenant), claim).await.unwrap_or_default()
    }

    #[tokio::test]
    async fn only_what_was_signed_for_the_tenant_reads_back() {
        let links = Links::new(Arc::new(InMemoryStore::new()));
        let token = links
            .sign(&realm("acme"), link(), Dialect::V1)
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        assert_eq!(read(&links, "acme", &token).await, Some(link()));
        assert_eq!(read(&links, "globex", &token).await, None);
        let (said, signature) = token.split_once('.').unwrap_or_default();
        let other = Link { intent: Intent::Inspect, ..link() };
        let other = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&other).unwrap_or_default());
        let stranger = sign(&[9; 32], &link(), Dialect::V1).unwrap_or_default();
        for forged in [
            format!("{other}.{signature}"),
            stranger,
            said.to_owned(),
            format!("{said}."),
            String::new(),
        ] {
            assert_eq!(read(&links, "acme", &forged).await, None, "{forged}");
        }
    }

    #[tokio::test]
    async fn a_link_outlives_one_rotation_and_not_two() {
        let links = Links::new(Arc::new(InMemoryStore::new()));
        let acme = realm("acme");
        let first = links.sign(&acme, link(), Dialect::V1).await.ok().flatten().unwrap_or_default();
        assert_eq!(links.rotate(&acme).await.ok(), Some(1));
        let second =
            links.sign(&acme, link(), Dialect::V1).await.ok().flatten().unwrap_or_default();
        assert_ne!(first, second);
        for token in [&first, &second] {
            assert!(read(&links, "acme", token).await.is_some());
        }
        assert_eq!(links.rotate(&acme).await.ok(), Some(2));
        assert_eq!(read(&links, "acme", &first).await, None);
        assert_eq!(read(&links, "acme", &second).await, Some(Link { key_id: 1, ..link() }));
        // A secret that is not in use yet counts for nothing, even if somebody could sign with it.
        let early =
            sign(&links.0.link_secret(&acme, 3), &Link { key_id: 3, ..link() }, Dialect::V1);
        assert_eq!(read(&links, "acme", &early.unwrap_or_default()).await, None);
    }

    /// V-28.
    #[tokio::test]
    async fn a_token_of_the_second_major_is_signed_with_its_scheme_and_generation() {
        let links = Links::new(Arc::new(InMemoryStore::new()));
        let signed = links.sign(&realm("acme"), link(), Dialect::V2).await;
        let token = signed.ok().flatten().unwrap_or_default();
        assert!(token.starts_with("ow2.hs256.g0."), "{token}");
        assert_eq!(read(&links, "acme", &token).await, Some(link()));
        assert_eq!(read(&links, "globex", &token).await, None);
        let first = token.strip_prefix("ow2.hs256.g0.").unwrap_or_default();
        for forged in [
            first.to_owned(),
            token.replacen("g0", "g1", 1),
            token.replacen("g0", "nokid", 1),
            token.replacen("hs256", "none", 1),
            "ow2.hs256.nokid.x.y".to_owned(),
        ] {
            assert_eq!(read(&links, "acme", &forged).await, None, "{forged}");
        }
    }
}
