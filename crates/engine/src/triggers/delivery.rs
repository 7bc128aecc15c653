//! Things that came in over subscriptions: what became of each, and how they rest as records.
//!
//! A delivery's record stands under the key that makes two of the same thing one, for as long as it is remembered. A
//! delivery that was given up has a second record, its dead letter, which holds the content and stands in the order of
//! time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use callboard_protocol::{RunId, Timestamp};

use super::attachments::{self, Attachment};
use crate::records::{Key, Kind, Record, RecordChange};
use crate::store::{Scope, StoreError};

/// How long what was delivered is remembered, so that it is not delivered again. The protocol asks for a day.
const DELIVERED_KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How many days a dead letter is shown.
pub(super) const DEAD_LETTER_DAYS: u32 = 30;
pub(super) const DEAD_LETTERS_KEPT: Duration =
    Duration::from_secs(DEAD_LETTER_DAYS as u64 * 86_400);

/// What the deliveries of a subscription that wait are found by.
pub(super) const WAITING: &str = "waiting";
/// What a dead letter is found by.
pub(super) const ID: &str = "id";

/// Something that came in.
#[derive(Debug, Clone, PartialEq)]
pub struct InboundDelivery {
    pub id: String,
    pub subscription: String,
    /// Whose subscription it is.
    pub place: Scope,
    pub dedup_key: String,
    pub attempts: u32,
    pub state: InboundState,
    pub received_at: Timestamp,
    /// A `TriggerEvent` without its delivery id, as JSON. None for what was refused, and once it is kept elsewhere.
    pub event: Option<String>,
    /// Why the last attempt came to nothing, in words that hold nothing of the content.
    pub error: Option<String>,
    /// What came along, until it is kept with a run.
    pub files: Vec<Attachment>,
    /// Grows by one with every change.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "is")]
pub enum InboundState {
    Waiting { due_at: Timestamp },
    Delivered { run: RunId, at: Timestamp },
    Dead { reason: DeadReason, at: Timestamp },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
}

/// The body of both records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    id: String,
    subscription: String,
    dedup_key: String,
    attempts: u32,
    state: InboundState,
    received_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<Attachment>,
}

impl InboundDelivery {
    pub(super) fn key(subscription: &str, dedup_key: &str) -> Key {
        Key::of([subscription, dedup_key])
    }

    /// So many digits that the order of keys is the order of time.
    pub(super) fn letter_key(subscription: &str, at: Timestamp, id: &str) -> Key {
        Key::of([subscription, &format!("{:015}", at.as_millis()), id])
    }

    /// What one dead letter of a subscription is found by.
    pub(super) fn letter_index(subscription: &str, id: &str) -> String {
        Key::of([subscription, id]).as_str().to_owned()
    }

    /// Writes the delivery, and with it the dead letter that it has become.
    pub(super) fn put(&self) -> Result<Vec<RecordChange>, StoreError> {
        let InboundState::Dead { at, .. } = self.state else {
            let mut changes = vec![self.put_alone()?];
            if let InboundState::Delivered { run, .. } = &self.state {
                changes.extend(attachments::of_run(run, &self.place, &self.files)?);
            }
            return Ok(changes);
        };
        let letter = Self::letter_key(&self.subscription, at, &self.id);
        let letter =
            RecordChange::put(Kind::InboundDeadLetter, letter, self.place.clone(), &self.stored())?
                .due(Some(at.plus(DEAD_LETTERS_KEPT)))
                .indexed(ID, Self::letter_index(&self.subscription, &self.id));
        // The letter keeps the content.
        let delivery = Self { event: None, ..self.clone() }.put_alone()?;
        Ok(vec![delivery, letter])
    }

    /// It is due when it is to be tried again, and once it is settled when it is to be forgotten.
    pub(super) fn put_alone(&self) -> Result<RecordChange, StoreError> {
        let due_at = match self.state {
            InboundState::Waiting { due_at } => due_at,
            InboundState::Delivered { at, .. } => at.plus(DELIVERED_KEPT),
            InboundState::Dead { at, .. } => at.plus(DEAD_LETTERS_KEPT),
        };
        let key = Self::key(&self.subscription, &self.dedup_key);
        let place = self.place.clone();
        let mut stored = self.stored();
        // The run keeps them, or the dead letter.
        if !matches!(self.state, InboundState::Waiting { .. }) {
            stored.files.clear();
        }
        let put = RecordChange::put(Kind::InboundDelivery, key, place, &stored)?;
        let put = put.due(Some(due_at));
        let is_waiting = matches!(self.state, InboundState::Waiting { .. });
        Ok(if is_waiting { put.indexed(WAITING, self.subscription.clone()) } else { put })
    }

    pub(super) fn read(record: &Record) -> Result<Self, StoreError> {
        let stored = record.read()?;
        let Stored {
            id,
            subscription,
            dedup_key,
            attempts,
            state,
            received_at,
            event,
            error,
            files,
        } = stored;
        let (place, version) = (record.place.clone(), record.version);
        Ok(Self {
            id,
            subscription,
            place,
            dedup_key,
            attempts,
            state,
            received_at,
            event,
            error,
            files,
            version,
        })
    }

    fn stored(&self) -> Stored {
        Stored {
            id: self.id.clone(),
            subscription: self.subscription.clone(),
            dedup_key: self.dedup_key.clone(),
            attempts: self.attempts,
            state: self.state.clone(),
            received_at: self.received_at,
            event: self.event.clone(),
            error: self.error.clone(),
            files: self.files.clone(),
        }
    }
}

/// The posts of one subscription that were refused last, the oldest first. Strangers may send as many as they like, so
/// they share one record of bounded size.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RefusedPosts(Vec<RefusedPost>);

#[derive(Debug, Serialize, Deserialize)]
struct RefusedPost {
    id: String,
    at: Timestamp,
}

impl RefusedPosts {
    pub(super) fn note(&mut self, id: String, at: Timestamp, most: usize) {
        if self.0.iter().any(|post| post.id == id) {
            return;
        }
        self.0.push(RefusedPost { id, at });
        let spare = self.0.len().saturating_sub(most);
        self.0.drain(..spare);
    }

    /// As dead letters without content.
    pub(super) fn letters<'a>(
        &'a self,
        subscription: &'a str,
        place: &'a Scope,
    ) -> impl Iterator<Item = InboundDelivery> + 'a {
        self.0.iter().map(|RefusedPost { id, at }| InboundDelivery {
            id: id.clone(),
            subscription: subscription.to_owned(),
            place: place.clone(),
            // The sender's id is not used: it may belong to a good post that is still to come.
            dedup_key: super::dedup_key(subscription, id),
            attempts: 1,
            state: InboundState::Dead { reason: DeadReason::VerificationFailed, at: *at },
            received_at: *at,
            event: None,
            error: None,
            files: Vec::new(),
            version: 1,
        })
    }
}
