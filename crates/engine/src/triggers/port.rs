//! The port to trigger subscriptions with what came in over them.

use std::fmt;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use callboard_protocol::{
    Object, Owner, Principal, RetryPolicy, RosterId, RunId, SubscriptionState, Timestamp,
    TriggerSource, TriggerSubscription, WorkflowId, hex,
};

use crate::store::{NewRun, Scope, StoreError};

/// Subscriptions and arrivals of all tenants. Every row has a version; who changes one says which he has read.
#[async_trait]
pub trait Triggers: fmt::Debug + Send + Sync {
    async fn add_subscription(
        &self,
        subscription: Subscription,
        secrets: SigningSecrets,
    ) -> Result<(), StoreError>;

    /// Those that the caller may see, oldest first.
    async fn subscriptions(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError>;

    async fn subscription(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Subscription>, StoreError>;

    /// For whoever knows its id, which is all that strangers have: with what their posts are signed with.
    async fn open_subscription(
        &self,
        id: &str,
    ) -> Result<Option<(Subscription, SigningSecrets)>, StoreError>;

    /// Replaces a subscription that still has the version `expected`, with the run that tells of it; otherwise
    /// [`StoreError::Moved`]. No secrets leaves them as they are.
    async fn change_subscription(
        &self,
        subscription: Subscription,
        expected: u64,
        secrets: Option<SigningSecrets>,
        telling: Option<NewRun>,
    ) -> Result<(), StoreError>;

    /// Removes a subscription of the scope with what came in over it; answers whether it was there.
    async fn remove_subscription(&self, scope: &Scope, id: &str) -> Result<bool, StoreError>;

    /// Keeps something that came in, with the run that it became if it did, or says why not. Of two with one key
    /// the first is kept.
    async fn keep_arrival(&self, arrival: Arrival, run: Option<NewRun>)
    -> Result<Kept, StoreError>;

    /// Keeps that a post was refused, and no more than `most` of these for each subscription.
    async fn note_refused(&self, arrival: Arrival, most: usize) -> Result<(), StoreError>;

    /// Reads up to `most` arrivals of active subscriptions that are to be tried again by now, the longest due first.
    async fn due_arrivals(&self, at: Timestamp, most: usize) -> Result<DueArrivals, StoreError>;

    /// Keeps what became of an arrival that still has the version `expected`; otherwise [`StoreError::Moved`].
    async fn settle_arrival(&self, settled: Settled, expected: u64) -> Result<(), StoreError>;

    /// One arrival that the caller may see.
    async fn arrival(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<Option<Arrival>, StoreError>;

    /// What was given up since then, newest first, behind the place of `after`.
    async fn dead_arrivals(
        &self,
        scope: &Scope,
        subscription: &str,
        since: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<Arrival>, StoreError>;

    /// Forgets what was delivered before one time, or given up before the other.
    async fn forget_arrivals(
        &self,
        delivered_before: Timestamp,
        dead_before: Timestamp,
    ) -> Result<(), StoreError>;
}

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

/// What a subscription keeps as JSON. An old reader ignores fields that it does not know; a new reader defaults
/// those that an old row lacks; an old writer drops new fields, none of which may guard anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionBody {
    pub dedup: bool,
    pub retry: RetryPolicy,
    pub verification: Verification,
    /// Inputs by name, each a path into the event; what is mapped becomes an ordinary input.
    #[serde(default)]
    pub mapping: Object,
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
    /// A wrong proof and none are the same: the run is told that it is not verified.
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
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(String);

impl SigningSecret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret, for the one who must see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Tells secrets apart without giving them away: keyed, so that nobody can look one up.
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

/// The secret in force, with the one before it for as long as senders may still use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SigningSecrets {
    pub current: Option<SigningSecret>,
    pub previous: Option<(SigningSecret, Timestamp)>,
}

impl SigningSecrets {
    pub(crate) fn valid_at(&self, at: Timestamp) -> impl Iterator<Item = &SigningSecret> {
        let previous = self.previous.iter().filter(move |(_, until)| *until > at);
        self.current.iter().chain(previous.map(|(secret, _)| secret))
    }
}

/// Something that came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    pub id: String,
    pub subscription: String,
    /// Whose subscription it is.
    pub place: Scope,
    pub dedup_key: String,
    pub attempts: u32,
    pub state: ArrivalState,
    pub received_at: Timestamp,
    /// A `TriggerEvent` without its delivery id, as JSON; sealed at rest. None for what was refused.
    pub event: Option<String>,
    /// Why the last attempt came to nothing, in words that hold nothing of the content.
    pub error: Option<String>,
    /// Grows by one with every change.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrivalState {
    Waiting { due_at: Timestamp },
    Delivered { run: RunId, at: Timestamp },
    Dead { reason: DeadReason, at: Timestamp },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadReason {
    VerificationFailed,
    RetriesExhausted,
}

impl DeadReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VerificationFailed => "verification_failed",
            Self::RetriesExhausted => "retries_exhausted",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::VerificationFailed, Self::RetriesExhausted]
            .into_iter()
            .find(|reason| reason.as_str() == name)
    }
}

/// What keeping came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept {
    New,
    /// The same thing came before.
    Known(Box<Arrival>),
    /// The subscription takes nothing now.
    NotActive(SubscriptionState),
}

#[derive(Debug, Clone, Default)]
pub struct DueArrivals {
    pub arrivals: Vec<Arrival>,
    /// When another that is not due yet becomes so.
    pub next: Option<Timestamp>,
}

/// What became of an arrival.
#[derive(Debug)]
pub struct Settled {
    pub arrival: Arrival,
    /// The run that it became, or the one that tells that it was given up.
    pub run: Option<NewRun>,
    /// The subscription is given up with it, and whatever else waits there.
    pub buries: bool,
}
