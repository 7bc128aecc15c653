//! Trigger subscriptions: what they are, what their senders sign with, and how both rest as one record.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use callboard_protocol::{
    Object, Owner, Principal, RetryPolicy, RosterId, SubscriptionState, Timestamp, TriggerSource,
    TriggerSubscription, WorkflowId, hex,
};

use super::preset::Terms;
use crate::records::{Key, Kind, Record, RecordChange};
use crate::store::{Scope, StoreError};

/// One subscription, without its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    pub id: String,
    /// Where it lives, and its runs.
    pub place: Scope,
    pub source: TriggerSource,
    pub workflow: WorkflowId,
    /// The member whose work it brings.
    pub roster_id: Option<RosterId>,
    pub state: SubscriptionState,
    /// Grows by one with every change.
    pub version: u64,
    pub body: SubscriptionBody,
}

/// What was agreed with the maker of the subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionBody {
    pub dedup: bool,
    pub retry: RetryPolicy,
    pub verification: Verification,
    /// Inputs by name, each a path into the event; what is mapped becomes an ordinary input.
    #[serde(default)]
    pub mapping: Object,
    #[serde(default, skip_serializing_if = "Terms::are_usual")]
    pub terms: Terms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Whether a post must prove who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verification {
    Required,
    /// A wrong proof and none are the same: the run sees that it is not verified.
    BestEffort,
    None,
}

impl Subscription {
    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.place.tenant.clone(),
            workspace: self.place.workspace.clone(),
            principal: self.body.principal.clone(),
        }
    }

    /// As the protocol shows it.
    pub fn document(&self) -> TriggerSubscription {
        TriggerSubscription {
            subscription_id: self.id.clone(),
            source: self.source,
            state: self.state,
            dedup_enabled: self.body.dedup,
            retry_policy: self.body.retry,
            secret_fingerprint: self.body.fingerprint.clone(),
        }
    }
}

/// What posts are signed with, `whsec_` and base64. Debugging does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecret(String);

impl SigningSecret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret, for the one who must see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Distinguishes secrets without giving them away: keyed, so that no one can look one up.
    pub fn fingerprint(&self, key: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
        mac.update(self.0.as_bytes());
        let digest = mac.finalize().into_bytes();
        Some(hex(&digest[..6]))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// Secrets that were in force not long ago; more than are needed, and a bound for callers that rotate without end.
const MOST_EARLIER: usize = 8;

/// The secret in force, with those before it for as long as senders may still use them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SigningSecrets {
    pub current: Option<SigningSecret>,
    /// With when each ceases to work, oldest first.
    pub earlier: Vec<(SigningSecret, Timestamp)>,
}

impl SigningSecrets {
    pub(crate) fn valid_at(&self, at: Timestamp) -> impl Iterator<Item = &SigningSecret> {
        let earlier = self.earlier.iter().filter(move |(_, until)| *until > at);
        self.current.iter().chain(earlier.map(|(secret, _)| secret))
    }

    /// Puts another secret in force; the last one works until then, as do those before it for as long as they were
    /// promised. So rotating again because no answer came takes no secret away that senders use.
    pub(super) fn rotated(self, new: SigningSecret, at: Timestamp, until: Timestamp) -> Self {
        let mut earlier = self.earlier;
        earlier.retain(|(_, ends)| *ends > at);
        earlier.extend(self.current.map(|old| (old, until)));
        // The oldest is the one that senders are most likely to have; the newest is the one that was just in force.
        if earlier.len() > MOST_EARLIER {
            earlier.remove(1);
        }
        Self { current: Some(new), earlier }
    }
}

/// The body of a subscription's record. Its id is the record's key, its version the record's version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    id: String,
    source: TriggerSource,
    workflow: WorkflowId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster_id: Option<RosterId>,
    state: SubscriptionState,
    body: SubscriptionBody,
    #[serde(default)]
    secrets: SigningSecrets,
}

impl Subscription {
    /// Strangers know nothing but the id, so it is the whole key.
    pub fn key(id: &str) -> Key {
        Key::of([id])
    }

    pub(super) fn put(&self, secrets: SigningSecrets) -> Result<RecordChange, StoreError> {
        let stored = Stored {
            id: self.id.clone(),
            source: self.source,
            workflow: self.workflow.clone(),
            roster_id: self.roster_id.clone(),
            state: self.state,
            body: self.body.clone(),
            secrets,
        };
        RecordChange::put(Kind::Subscription, Self::key(&self.id), self.place.clone(), &stored)
    }

    pub(super) fn open(record: &Record) -> Result<(Self, SigningSecrets), StoreError> {
        let Stored { id, source, workflow, roster_id, state, body, secrets } = record.read()?;
        let (place, version) = (record.place.clone(), record.version);
        let subscription = Self { id, place, source, workflow, roster_id, state, version, body };
        Ok((subscription, secrets))
    }

    /// A subscription as it was stored, without its secrets.
    pub fn read(record: &Record) -> Result<Self, StoreError> {
        Self::open(record).map(|(subscription, _)| subscription)
    }

    pub fn is_active(&self) -> bool {
        self.state == SubscriptionState::Active
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::KeyMode;

    #[test]
    fn a_subscription_that_was_stored_with_the_least_is_read() -> Result<(), StoreError> {
        let body = r#"{"id":"t1","source":"webhook","workflow":"greet","state":"active","body":{"dedup":true,
            "retry":{"maxAttempts":3,"backoff":"none"},"verification":"best-effort",
            "createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}}"#;
        let record = Record {
            kind: Kind::Subscription,
            key: Subscription::key("t1"),
            place: Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live },
            version: 3,
            position: 1,
            due_at: None,
            body: Arc::from(body),
        };
        let (subscription, secrets) = Subscription::open(&record)?;
        assert_eq!((subscription.version, subscription.roster_id), (3, None));
        assert_eq!(secrets, SigningSecrets::default());
        Ok(())
    }

    #[test]
    fn whoever_rotates_again_for_want_of_an_answer_takes_nothing_away() {
        let secret = |text: &str| SigningSecret::new(text.to_owned());
        let at = Timestamp::from_millis;
        let mut secrets = SigningSecrets { current: Some(secret("used")), earlier: Vec::new() };
        secrets = secrets.rotated(secret("unanswered"), at(0), at(100));
        secrets = secrets.rotated(secret("answered"), at(10), at(110));
        let valid = |secrets: &SigningSecrets, now| -> Vec<String> {
            secrets.valid_at(at(now)).map(|secret| secret.reveal().to_owned()).collect()
        };
        assert_eq!(valid(&secrets, 99), ["answered", "used", "unanswered"]);
        assert_eq!(valid(&secrets, 100), ["answered", "unanswered"], "no longer than promised");
        assert_eq!(valid(&secrets, 110), ["answered"]);
        for number in 0..20 {
            secrets = secrets.rotated(secret(&format!("more-{number}")), at(20), at(120));
        }
        assert_eq!(secrets.earlier.len(), MOST_EARLIER);
        let valid = valid(&secrets, 21);
        assert!(valid.contains(&"used".to_owned()) && valid.contains(&"more-18".to_owned()));
        let later = secrets.rotated(secret("last"), at(500), at(600));
        assert_eq!(later.earlier, [(secret("more-19"), at(600))]);
    }
}
