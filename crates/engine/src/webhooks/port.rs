//! The port to what webhooks need from a database, with the rows that pass through it.

use std::fmt;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use callboard_protocol::{RunId, Tenant, Timestamp, WebhookId, Workspace, hex};

use super::circuit::Circuit;
use super::filter::EventFilter;
use crate::store::{Recorded, Scope, StoreError};

/// Subscriptions, the cursor into all logs, and deliveries that are on their way.
#[async_trait]
pub trait Webhooks: fmt::Debug + Send + Sync {
    /// Stores a webhook, which gets what is appended from now on. `since` is set by the store.
    async fn register_webhook(&self, webhook: Webhook, secret: Secret) -> Result<(), StoreError>;

    /// The webhooks that the caller may see, oldest first. Callbacks belong to their runs and are seen by nobody.
    async fn webhooks(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError>;

    /// Forgets a webhook with everything that was still on its way to it; answers whether there was one.
    async fn remove_webhook(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError>;

    /// What was given up after `since`, newest first; none if the caller has no such webhook.
    async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError>;

    /// Reads what nobody has planned yet, in the order of commits, with those who may want it.
    /// Where nobody listens, nothing is read.
    async fn read_unplanned(&self, limit: usize) -> Result<Unplanned, StoreError>;

    /// Inserts deliveries and moves the cursor, or neither: answers false if the cursor was moved by somebody else.
    async fn plan_deliveries(&self, plan: Plan) -> Result<bool, StoreError>;

    /// Takes the next due delivery of each webhook that is not resting and that nobody else delivers to.
    async fn take_deliveries(&self, request: &TakeRequest) -> Result<Taken, StoreError>;

    /// Writes what became of a delivery and gives its webhook back. Answers false, and writes nothing, if the
    /// lease was lost or the webhook removed in the meantime. A callback is forgotten unless it is tried again.
    async fn settle_delivery(&self, settlement: Settlement) -> Result<bool, StoreError>;
}

/// A place in all logs together, in the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition(pub u64);

/// How much trouble is taken over each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// One attempt; what fails is lost.
    BestEffort,
    /// Repeated until it arrives or is given up as a dead letter.
    Durable,
}

/// A subscription without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    /// It hears of runs that this scope sees.
    pub scope: Scope,
    pub url: String,
    pub events: EventFilter,
    /// Only runs with one of these; empty is every run.
    pub tags: Vec<String>,
    pub care: Care,
    /// Tells secrets apart in lists and logs without giving them away.
    pub fingerprint: String,
    pub created_at: Timestamp,
    /// It hears of what was committed after this.
    pub since: LogPosition,
    pub circuit: Circuit,
}

impl Webhook {
    /// Whether it wants to hear of this event.
    pub(super) fn wants(&self, logged: &Logged) -> bool {
        let own = &self.scope;
        logged.position > self.since
            && own.tenant == logged.scope.tenant
            && own.mode == logged.scope.mode
            && (own.workspace.is_none() || own.workspace == logged.scope.workspace)
            && (self.tags.is_empty() || self.tags.iter().any(|tag| logged.tags.contains(tag)))
            && self.events.wants(&logged.kind)
    }
}

/// What deliveries are signed with: 64 hexadecimal digits. Debugging does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret, for the one who must see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The first eight hexadecimal digits of its SHA-256, as the protocol asks.
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(&self.0)[..4])
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where the cursor stands, what comes after it, and who listens.
#[derive(Debug, Clone, Default)]
pub struct Unplanned {
    pub cursor: LogPosition,
    /// Without those that have failed for good.
    pub webhooks: Vec<Webhook>,
    pub events: Vec<Logged>,
    /// Whether callbacks are on their way, which need no planning.
    pub has_callbacks: bool,
}

/// What decides who hears of an event. Its payload is read when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub position: LogPosition,
    pub kind: String,
    /// Where the run lives.
    pub scope: Scope,
    pub tags: Vec<String>,
    /// Whether its run only goes through another's history again.
    pub is_replay: bool,
}

/// Deliveries for everything between two places of the cursor.
#[derive(Debug, Clone)]
pub struct Plan {
    pub from: LogPosition,
    pub to: LogPosition,
    pub at: Timestamp,
    pub deliveries: Vec<Planned>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub webhook: WebhookId,
    pub event: LogPosition,
}

#[derive(Debug, Clone, Copy)]
pub struct TakeRequest {
    pub at: Timestamp,
    /// The end of the leases that are granted.
    pub until: Timestamp,
    pub most: usize,
}

/// Deliveries to make now, and when another may become due.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    pub deliveries: Vec<Delivery>,
    pub next: Option<Timestamp>,
}

/// One event on its way to one webhook, held by whoever took it.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: u64,
    /// Grows with every taking, so that a courier that overslept is recognised.
    pub epoch: u64,
    pub webhook: Webhook,
    /// None for a callback, which is signed with what its tenant has for all of them.
    pub secret: Option<Secret>,
    /// Attempts that were settled before this one.
    pub attempts: u32,
    /// As readers see it: masked where it is masked.
    pub event: Recorded,
    pub tenant: Tenant,
    pub workspace: Option<Workspace>,
}

/// What became of a taken delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub delivery: u64,
    pub webhook: WebhookId,
    pub epoch: u64,
    pub at: Timestamp,
    pub fate: Fate,
    /// The webhook's circuit after this attempt.
    pub circuit: Circuit,
    pub others: Others,
    /// Dead letters of this webhook from before this are forgotten.
    pub forget_before: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Nothing more will be done for it.
    Gone,
    Retry {
        due_at: Timestamp,
    },
    /// Kept for people to look at.
    Dead {
        reason: String,
    },
}

/// What becomes of the webhook's other deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    Wait,
    /// They are forgotten: the circuit has opened.
    Skip,
    /// They become dead letters: the webhook has failed for good.
    Bury,
}

impl Others {
    /// Why a delivery that was never refused itself became a dead letter.
    pub const BURIED: &'static str = "the webhook failed too often";
}

/// A delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: u64,
    pub run: RunId,
    pub sequence: u64,
    pub kind: String,
    pub attempts: u32,
    pub reason: String,
    pub dead_at: Timestamp,
}
