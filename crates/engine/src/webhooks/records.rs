//! Webhooks as records: who listens, how far the log was planned, what waits for whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{Timestamp, WebhookId};

use super::delivery::{DeadLetter, Plan, Planned, Queue, Unplanned};
use super::webhook::{Secret, Webhook};
use crate::logs::LogPosition;
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, KeyMode, Scope, Store, StoreError};

/// How often something is decided anew because others were faster.
pub(super) const MOST_TRIES: usize = 8;
/// Deliveries that go at once when their webhook does.
pub(super) const PAGE: usize = 256;

/// Webhooks, the cursor into all logs, and deliveries that are on their way.
#[derive(Debug, Clone)]
pub struct Webhooks {
    pub(super) store: Arc<dyn Store>,
}

/// How far all logs were planned.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cursor {
    position: LogPosition,
}

fn cursor_key() -> Key {
    Key::of(["cursor"])
}

/// Where what is the host's own stands.
fn host() -> Scope {
    Scope { tenant: "".into(), workspace: None, mode: KeyMode::Live }
}

impl Webhooks {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Stores a webhook, which gets what is appended from now on. Where nobody listened before it, the cursor has stood
    /// still and need not pass through what nobody wanted.
    pub async fn register_webhook(
        &self,
        webhook: Webhook,
        secret: Secret,
    ) -> Result<(), StoreError> {
        let what = webhook.id.to_string();
        for _ in 0..MOST_TRIES {
            let (_, standing) = self.cursor().await?;
            let is_first = self.listeners().await?.is_empty();
            let since = self.store.newest().await?;
            let webhook = Webhook { since, ..webhook.clone() };
            let mut records = vec![webhook.put(&secret)?.expecting(Expected::Absent)];
            if is_first {
                records.push(put_cursor(since)?.expecting(standing));
            }
            match self.store.commit(Batch::of_records(records)).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done,
            }
        }
        Err(StoreError::Moved { what })
    }

    /// The webhooks that the caller may see, oldest first.
    pub async fn webhooks(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError> {
        self.all(Within::VisibleTo(scope.clone())).await
    }

    async fn all(&self, within: Within) -> Result<Vec<Webhook>, StoreError> {
        let mut found = self.store.scan(&RecordQuery::all(Kind::Webhook, within)).await?;
        found.sort_by_key(|record| record.position);
        found.iter().map(|record| Ok(Webhook::open(record)?.0)).collect()
    }

    /// Those that have not failed for good.
    async fn listeners(&self) -> Result<Vec<Webhook>, StoreError> {
        let mut webhooks = self.all(Within::Everywhere).await?;
        webhooks.retain(|webhook| !webhook.circuit.has_failed());
        Ok(webhooks)
    }

    pub(super) async fn record(&self, id: &WebhookId) -> Result<Option<Record>, StoreError> {
        self.store.get(Kind::Webhook, &Webhook::key(id)).await
    }

    async fn is_visible(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        Ok(self.record(id).await?.is_some_and(|record| scope.includes(&record.place)))
    }

    /// Forgets a webhook with everything that was still on its way to it; answers whether there was one. What is on its
    /// way goes first or with it, so that no crash leaves anything behind that would keep its run.
    pub async fn remove_webhook(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        for _ in 0..MOST_TRIES {
            if !self.is_visible(scope, id).await? {
                return Ok(false);
            }
            let key = Webhook::key(id);
            let (queue, _) = self.queue(id).await?;
            let mut records = Vec::new();
            for kind in [Kind::WebhookDelivery, Kind::WebhookDeadLetter] {
                let rest = self.drop_pages(kind, id).await?;
                records
                    .extend(rest.into_iter().map(|record| RecordChange::delete(kind, record.key)));
            }
            let expected = queue.map_or(Expected::Absent, Expected::Version);
            records.push(RecordChange::delete(Kind::WebhookQueue, key.clone()).expecting(expected));
            records.push(RecordChange::delete(Kind::Webhook, key).expecting(Expected::Present));
            match self.store.commit(Batch::of_records(records)).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done.map(|()| true),
            }
        }
        Err(StoreError::Moved { what: id.to_string() })
    }

    /// Removes whole pages of what is kept for a webhook; answers what is left.
    pub(super) async fn drop_pages(
        &self,
        kind: Kind,
        id: &WebhookId,
    ) -> Result<Vec<Record>, StoreError> {
        loop {
            let found = self.store.scan(&below(kind, id).limit(PAGE)).await?;
            if found.len() < PAGE {
                return Ok(found);
            }
            let gone = found.into_iter().map(|record| RecordChange::delete(kind, record.key));
            self.store.commit(Batch::of_records(gone)).await?;
        }
    }

    /// What was given up after `since`, newest first; none if the caller has no such webhook.
    pub async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        (since, after): (Timestamp, Option<(Timestamp, u64)>),
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        if !self.is_visible(scope, id).await? {
            return Ok(None);
        }
        let after = after.map(|(at, event)| Planned::key_at(id, at, event));
        let page = below(Kind::WebhookDeadLetter, id).descending().after(after).limit(limit);
        let letters = self.store.scan(&page).await?;
        let letters = letters.iter().map(Record::read);
        let mut letters = letters.collect::<Result<Vec<DeadLetter>, _>>()?;
        letters.retain(|letter| letter.dead_at >= since);
        Ok(Some(letters))
    }

    /// Forgets some of the dead letters whose time is over; answers whether there may be more.
    pub async fn forget_dead_letters(&self, at: Timestamp) -> Result<bool, StoreError> {
        let old = self.store.due(Kind::WebhookDeadLetter, at, PAGE).await?.records;
        let is_full = old.len() == PAGE;
        if !old.is_empty() {
            let gone = old.into_iter().map(|letter| RecordChange::delete(letter.kind, letter.key));
            self.store.commit(Batch::of_records(gone)).await?;
        }
        Ok(is_full)
    }

    /// Reads what nobody has planned yet, in the order of commits, with those who may want it: as many events as
    /// `most` places of the log hold. Where nobody listens, nothing is read.
    pub async fn read_unplanned(&self, most: u64) -> Result<Unplanned, StoreError> {
        let calling = RecordQuery::all(Kind::Callback, Within::Everywhere).limit(1);
        let has_callbacks = !self.store.scan(&calling).await?.is_empty();
        let webhooks = self.listeners().await?;
        if webhooks.is_empty() {
            return Ok(Unplanned { has_callbacks, ..Unplanned::default() });
        }
        let (cursor, _) = self.cursor().await?;
        let window = self.store.read_all(&Within::Everywhere, cursor, most).await?;
        let (events, until) = (window.events, window.until);
        Ok(Unplanned { cursor, webhooks, events, until, has_callbacks })
    }

    /// Where there are webhooks, the place up to which their deliveries are planned.
    pub async fn planned_until(&self) -> Result<Option<LogPosition>, StoreError> {
        if self.listeners().await?.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.cursor().await?.0))
    }

    /// Keeps deliveries and moves the cursor, or neither: answers false if the cursor was moved by somebody else. A
    /// webhook that was removed since gets nothing.
    pub async fn plan_deliveries(&self, plan: Plan) -> Result<bool, StoreError> {
        let mut queues: BTreeMap<&WebhookId, Vec<&Planned>> = BTreeMap::new();
        for planned in &plan.deliveries {
            queues.entry(&planned.webhook).or_default().push(planned);
        }
        for _ in 0..MOST_TRIES {
            let (cursor, standing) = self.cursor().await?;
            if cursor != plan.from {
                return Ok(false);
            }
            let mut records = vec![put_cursor(plan.to)?.expecting(standing)];
            for (webhook, planned) in &queues {
                records.extend(self.plan_for(webhook, planned, plan.at).await?);
            }
            match self.store.commit(Batch::of_records(records)).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done.map(|()| true),
            }
        }
        Ok(false)
    }

    pub(super) async fn plan_for(
        &self,
        id: &WebhookId,
        planned: &[&Planned],
        at: Timestamp,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let Some(record) = self.record(id).await? else { return Ok(Vec::new()) };
        let (webhook, _) = Webhook::open(&record)?;
        if webhook.circuit.has_failed() {
            return Ok(Vec::new());
        }
        let place = &webhook.scope;
        let standing = Expected::Version(record.version);
        let mut changes = vec![RecordChange::check(Kind::Webhook, record.key, standing)];
        for planned in planned {
            changes.push(planned.put(place, at)?);
        }
        let key = Webhook::key(id);
        let standing = self.store.get(Kind::WebhookQueue, &key).await?;
        // A resting webhook is left alone until it has rested.
        let due_at = webhook.circuit.rest_until().map_or(at, |rested| rested.max(at));
        changes.push(match standing {
            None => Queue::new(id.clone()).put(place, Some(due_at))?.expecting(Expected::Absent),
            // Also where nothing of it changes: the host that settles a taken delivery must see what was added.
            Some(record) => {
                let queue = Queue::read(&record)?;
                let sooner = record.due_at.map_or(due_at, |standing| standing.min(due_at));
                let due_at = if queue.is_taken { record.due_at } else { Some(sooner) };
                queue.put(place, due_at)?.expecting(Expected::Version(record.version))
            }
        });
        Ok(changes)
    }

    /// The version of a webhook's queue, if it has one, and what is in it.
    pub(super) async fn queue(&self, id: &WebhookId) -> Result<(Option<u64>, Queue), StoreError> {
        let record = self.store.get(Kind::WebhookQueue, &Webhook::key(id)).await?;
        let queue = record.as_ref().map(Queue::read).transpose()?;
        let queue = queue.unwrap_or_else(|| Queue::new(id.clone()));
        Ok((record.map(|record| record.version), queue))
    }

    async fn cursor(&self) -> Result<(LogPosition, Expected), StoreError> {
        let Some(record) = self.store.get(Kind::WebhookCursor, &cursor_key()).await? else {
            return Ok((LogPosition::default(), Expected::Absent));
        };
        let cursor: Cursor = record.read()?;
        Ok((cursor.position, Expected::Version(record.version)))
    }
}

fn put_cursor(position: LogPosition) -> Result<RecordChange, StoreError> {
    RecordChange::put(Kind::WebhookCursor, cursor_key(), host(), &Cursor { position })
}

/// What is kept for a webhook, in the order of keys.
pub(super) fn below(kind: Kind, id: &WebhookId) -> RecordQuery {
    RecordQuery::all(kind, Within::Everywhere).below(Webhook::key(id))
}
