//! A webhook: which events it receives, and how it is stored as a record.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use callboard_protocol::{Dialect, Timestamp, WebhookId, hex};

use super::circuit::Circuit;
use super::filter::EventFilter;
use crate::logs::{LogPosition, Logged};
use crate::records::{Key, Kind, Record, RecordChange};
use crate::store::{Scope, StoreError};

/// How much trouble is taken over each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Care {
    /// One attempt; what fails is lost.
    BestEffort,
    /// Repeated until it arrives or is given up as a dead letter.
    Durable,
}

/// A webhook without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    /// It receives events of runs that this scope sees.
    pub scope: Scope,
    pub url: String,
    pub events: EventFilter,
    /// Only runs with one of these; empty is every run.
    pub tags: Vec<String>,
    pub care: Care,
    /// Distinguishes secrets in lists and logs without giving them away.
    pub fingerprint: String,
    pub created_at: Timestamp,
    /// It receives what was committed after this.
    pub since: LogPosition,
    pub circuit: Circuit,
    /// The major of the protocol that it was registered under, and is told in.
    pub dialect: Dialect,
}

/// What deliveries are signed with: 64 hexadecimal digits. Debugging does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// The body of a webhook's record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    id: WebhookId,
    url: String,
    events: EventFilter,
    #[serde(default)]
    tags: Vec<String>,
    care: Care,
    fingerprint: String,
    created_at: Timestamp,
    since: LogPosition,
    #[serde(default)]
    circuit: Circuit,
    #[serde(default)]
    dialect: Dialect,
    secret: Secret,
}

impl Webhook {
    pub(super) fn key(id: &WebhookId) -> Key {
        Key::of([id.as_str()])
    }

    pub(super) fn put(&self, secret: &Secret) -> Result<RecordChange, StoreError> {
        let stored = Stored {
            id: self.id.clone(),
            url: self.url.clone(),
            events: self.events.clone(),
            tags: self.tags.clone(),
            care: self.care,
            fingerprint: self.fingerprint.clone(),
            created_at: self.created_at,
            since: self.since,
            circuit: self.circuit.clone(),
            dialect: self.dialect,
            secret: secret.clone(),
        };
        RecordChange::put(Kind::Webhook, Self::key(&self.id), self.scope.clone(), &stored)
    }

    pub(super) fn open(record: &Record) -> Result<(Self, Secret), StoreError> {
        let stored: Stored = record.read()?;
        let webhook = Self {
            id: stored.id,
            scope: record.place.clone(),
            url: stored.url,
            events: stored.events,
            tags: stored.tags,
            care: stored.care,
            fingerprint: stored.fingerprint,
            created_at: stored.created_at,
            since: stored.since,
            circuit: stored.circuit,
            dialect: stored.dialect,
        };
        Ok((webhook, stored.secret))
    }

    /// Whether it receives this event.
    pub(super) fn wants(&self, logged: &Logged) -> bool {
        logged.position > self.since
            && self.scope.includes(&logged.place)
            && (self.tags.is_empty() || self.tags.iter().any(|tag| logged.tags.contains(tag)))
            && self.events.wants(&logged.event.kind)
    }
}
