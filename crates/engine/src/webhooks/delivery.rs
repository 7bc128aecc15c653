//! Events on their way to webhooks: what passes between the loop and the records, and how it rests.
//!
//! The deliveries of a webhook stand in the order in which they are due. Its queue is one more record, which says when
//! the next of them can be made, and whether one is under way: a webhook gets one delivery at a time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use callboard_protocol::{RunId, Tenant, Timestamp, WebhookId, Workspace};

use super::circuit::Circuit;
use super::fate::DEAD_LETTERS_KEPT;
use super::webhook::{Secret, Webhook};
use crate::logs::{LogPosition, Logged};
use crate::records::{Key, Kind, Record, RecordChange};
use crate::store::{Recorded, Scope, StoreError};

/// What the queues that somebody delivers for are found by.
pub(super) const TAKEN: &str = "taken";
pub(super) const YES: &str = "yes";

/// Where the cursor stands, what comes after it, and who listens.
#[derive(Debug, Clone, Default)]
pub struct Unplanned {
    pub cursor: LogPosition,
    /// Without those that have failed for good.
    pub webhooks: Vec<Webhook>,
    pub events: Vec<Logged>,
    /// Everything up to here was looked at.
    pub until: LogPosition,
    /// Whether callbacks are on their way, which need no planning.
    pub has_callbacks: bool,
}

/// Deliveries for everything between two places of the cursor.
#[derive(Debug, Clone)]
pub struct Plan {
    pub from: LogPosition,
    pub to: LogPosition,
    pub at: Timestamp,
    pub deliveries: Vec<Planned>,
}

/// An event on its way to a webhook. Its payload is read when it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    pub webhook: WebhookId,
    pub event: LogPosition,
    pub run: RunId,
    pub sequence: u64,
    pub kind: String,
    /// The run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Attempts that were settled.
    #[serde(default)]
    pub attempts: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct TakeRequest {
    pub at: Timestamp,
    /// What shows which leases have ended: they go by a clock that nobody puts forward.
    pub counted: Timestamp,
    /// How long the host that takes a delivery has for it.
    pub lease: Duration,
    pub most: usize,
}

impl TakeRequest {
    pub(super) fn lease_until(&self) -> Timestamp {
        self.counted.plus(self.lease)
    }

    /// When to look again at what is taken until then, if it still is.
    pub(super) fn held_until(&self, lease_until: Option<Timestamp>) -> Option<Timestamp> {
        let left = lease_until.filter(|until| *until > self.counted)?.since(self.counted);
        Some(self.at.plus(left))
    }
}

/// Deliveries to make now, and when another may become due.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    pub deliveries: Vec<Delivery>,
    pub next: Option<Timestamp>,
}

/// One event on its way to one webhook, held by the host that took it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The record that it rests in.
    pub(super) key: Key,
    /// How often the webhook was taken, so that a host that overslept is recognised.
    pub(super) epoch: u64,
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
    pub at: Timestamp,
    pub fate: Fate,
    /// The webhook's circuit after this attempt.
    pub circuit: Circuit,
    pub others: Others,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    pub id: u64,
    pub run: RunId,
    pub sequence: u64,
    pub kind: String,
    pub attempts: u32,
    pub reason: String,
    pub dead_at: Timestamp,
    /// The run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
}

impl Planned {
    pub fn of(webhook: &WebhookId, logged: &Logged) -> Self {
        Self {
            webhook: webhook.clone(),
            event: logged.position,
            run: logged.event.run.clone(),
            sequence: logged.event.sequence,
            kind: logged.event.kind.clone(),
            workspace: logged.place.workspace.clone(),
            attempts: 0,
        }
    }

    /// So many digits that the order of keys is that of the times, and then that of the log.
    fn key(&self, due_at: Timestamp) -> Key {
        Self::key_at(&self.webhook, due_at, self.event.0)
    }

    pub(super) fn key_at(webhook: &WebhookId, due_at: Timestamp, event: u64) -> Key {
        let due_at = due_at.as_millis();
        Key::of([webhook.as_str(), &format!("{due_at:015}"), &format!("{event:020}")])
    }

    /// As it waits for its turn. A run is kept until its webhooks have received it.
    pub(super) fn put(&self, place: &Scope, due_at: Timestamp) -> Result<RecordChange, StoreError> {
        let put = RecordChange::put(Kind::WebhookDelivery, self.key(due_at), place.clone(), self)?;
        Ok(put.due(Some(due_at)).retaining_run(&self.run))
    }

    /// As people find it that was given up.
    pub(super) fn bury(
        self,
        place: &Scope,
        at: Timestamp,
        reason: &str,
    ) -> Result<RecordChange, StoreError> {
        let key = self.key(at);
        let letter = DeadLetter {
            id: self.event.0,
            run: self.run,
            sequence: self.sequence,
            kind: self.kind,
            attempts: self.attempts,
            reason: reason.to_owned(),
            dead_at: at,
            workspace: self.workspace,
        };
        let put = RecordChange::put(Kind::WebhookDeadLetter, key, place.clone(), &letter)?;
        Ok(put.due(Some(at.plus(DEAD_LETTERS_KEPT))).retaining_run(&letter.run))
    }
}

/// When the next delivery of a webhook can be made, and whether one is under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Queue {
    pub(super) webhook: WebhookId,
    /// How often a delivery was taken.
    #[serde(default)]
    pub(super) epoch: u64,
    /// Whether the last one who did has not settled it: then it is due when the lease ends.
    #[serde(default)]
    pub(super) is_taken: bool,
    /// Until when it is theirs, by the clock that only counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease_until: Option<Timestamp>,
}

impl Queue {
    pub(super) fn new(webhook: WebhookId) -> Self {
        Self { webhook, epoch: 0, is_taken: false, lease_until: None }
    }

    pub(super) fn read(record: &Record) -> Result<Self, StoreError> {
        record.read()
    }

    pub(super) fn put(
        &self,
        place: &Scope,
        due_at: Option<Timestamp>,
    ) -> Result<RecordChange, StoreError> {
        let key = Webhook::key(&self.webhook);
        let put = RecordChange::put(Kind::WebhookQueue, key, place.clone(), self)?.due(due_at);
        Ok(if self.is_taken { put.indexed(TAKEN, YES) } else { put })
    }
}
