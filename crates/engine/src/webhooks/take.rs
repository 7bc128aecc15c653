//! Deliveries are taken under a lease and settled once.
//!
//! Taking one moves the time at which its webhook's queue is due to the end of the lease; a host that comes then
//! finds it again. A callback is its own queue.

use futures_util::future::join_all;

use callboard_protocol::{RunId, Timestamp};

use super::callback::Callback;
use super::delivery::{
    Delivery, Fate, Others, Planned, Queue, Settlement, TAKEN, TakeRequest, Taken, YES,
};
use super::records::{MOST_TRIES, PAGE, Webhooks, below};
use super::webhook::Webhook;
use crate::records::{Expected, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Recorded, Scope, StoreError};

/// What became of something that was due.
enum Take {
    Ours(Box<Delivery>),
    /// There is nothing to do before then, if ever.
    Later(Option<Timestamp>),
}

impl Webhooks {
    /// Takes the next due delivery of each webhook that is not resting and that nobody else delivers to.
    pub async fn take_deliveries(&self, request: &TakeRequest) -> Result<Taken, StoreError> {
        let queues = self.store.due(Kind::WebhookQueue, request.at, request.most).await?;
        let callbacks = self.store.due(Kind::Callback, request.at, request.most).await?;
        let mut next = [queues.next, callbacks.next];
        // Who has waited longest comes first, or a busy webhook would starve the others.
        let mut due = [queues.records, callbacks.records].concat();
        due.sort_by_key(|record| (record.due_at, record.position));
        due.truncate(request.most);
        let mut deliveries = Vec::new();
        for take in join_all(due.iter().map(|record| self.take(record, request))).await {
            match take {
                Ok(Take::Ours(delivery)) => deliveries.push(*delivery),
                Ok(Take::Later(later)) => next[0] = next[0].into_iter().chain(later).min(),
                // Another host was faster.
                Err(StoreError::Moved { .. }) => {}
                // The others need not suffer for it.
                Err(error) => tracing::error!(%error, "a webhook cannot be delivered to"),
            }
        }
        Ok(Taken { deliveries, next: next.into_iter().flatten().min() })
    }

    async fn take(&self, record: &Record, request: &TakeRequest) -> Result<Take, StoreError> {
        if record.kind == Kind::Callback {
            return self.take_callback(record, request).await;
        }
        let mut queue = Queue::read(record)?;
        let expected = Expected::Version(record.version);
        if let Some(later) = request.held_until(queue.lease_until).filter(|_| queue.is_taken) {
            // The wall clock was put forward; the host that took it is still sending.
            self.write([queue.put(&record.place, Some(later))?.expecting(expected)]).await?;
            return Ok(Take::Later(Some(later)));
        }
        let Some(webhook) = self.record(&queue.webhook).await? else {
            self.write([RecordChange::delete(record.kind, record.key.clone()).expecting(expected)])
                .await?;
            return Ok(Take::Later(None));
        };
        let (webhook, secret) = Webhook::open(&webhook)?;
        let first = self.store.scan(&below(Kind::WebhookDelivery, &webhook.id).limit(1)).await?;
        let first = first.into_iter().next().filter(|_| !webhook.circuit.has_failed());
        let free_at = first.as_ref().and_then(|first| free_at(first, &webhook));
        let Some(first) = first.filter(|_| free_at.is_some_and(|at| at <= request.at)) else {
            queue.is_taken = false;
            self.write([queue.put(&record.place, free_at)?.expecting(expected)]).await?;
            return Ok(Take::Later(free_at));
        };
        (queue.epoch, queue.is_taken) = (queue.epoch + 1, true);
        queue.lease_until = Some(request.lease_until());
        let due_at = request.at.plus(request.lease);
        self.write([queue.put(&record.place, Some(due_at))?.expecting(expected)]).await?;
        let planned: Planned = first.read()?;
        let event = self.event(&webhook.scope, &planned.run, planned.sequence).await?;
        Ok(Take::Ours(Box::new(Delivery {
            key: first.key,
            epoch: queue.epoch,
            tenant: webhook.scope.tenant.clone(),
            webhook,
            secret: Some(secret),
            attempts: planned.attempts,
            event,
            workspace: planned.workspace,
        })))
    }

    async fn take_callback(
        &self,
        record: &Record,
        request: &TakeRequest,
    ) -> Result<Take, StoreError> {
        let mut callback: Callback = record.read()?;
        let expected = Expected::Version(record.version);
        if let Some(later) = request.held_until(callback.lease_until).filter(|_| callback.is_taken)
        {
            self.write([callback.put(&record.place, later)?.expecting(expected)]).await?;
            return Ok(Take::Later(Some(later)));
        }
        (callback.epoch, callback.is_taken) = (callback.epoch + 1, true);
        callback.lease_until = Some(request.lease_until());
        let lease = callback.put(&record.place, request.at.plus(request.lease))?;
        self.write([lease.expecting(expected)]).await?;
        let place = &record.place;
        let event = self.event(place, &callback.run, callback.sequence).await?;
        Ok(Take::Ours(Box::new(Delivery {
            key: record.key.clone(),
            epoch: callback.epoch,
            attempts: callback.attempts,
            webhook: callback.webhook(place),
            secret: None,
            event,
            tenant: place.tenant.clone(),
            workspace: place.workspace.clone(),
        })))
    }

    async fn event(
        &self,
        scope: &Scope,
        run: &RunId,
        sequence: u64,
    ) -> Result<Recorded, StoreError> {
        let page = self.store.read(scope, run, sequence, 1).await?;
        let event = page.and_then(|page| page.events.into_iter().next());
        event.ok_or_else(|| StoreError::Unreadable {
            what: format!("event {sequence} of {run}"),
            why: "it is not there".to_owned(),
        })
    }

    /// Writes what became of a delivery and gives its webhook back. Answers false, and writes nothing, if the
    /// lease was lost or the webhook removed in the meantime. A callback is forgotten unless it is tried again.
    pub async fn settle_delivery(
        &self,
        delivery: &Delivery,
        settlement: &Settlement,
    ) -> Result<bool, StoreError> {
        for _ in 0..MOST_TRIES {
            let records = match delivery.secret {
                Some(_) => self.settle_webhook(delivery, settlement).await?,
                None => self.settle_callback(delivery, settlement).await?,
            };
            let Some(records) = records else { return Ok(false) };
            match self.write(records).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done.map(|()| true),
            }
        }
        Err(StoreError::Moved { what: delivery.webhook.id.to_string() })
    }

    async fn settle_callback(
        &self,
        delivery: &Delivery,
        settlement: &Settlement,
    ) -> Result<Option<Vec<RecordChange>>, StoreError> {
        let Some(record) = self.store.get(Kind::Callback, &delivery.key).await? else {
            return Ok(None);
        };
        let mut callback: Callback = record.read()?;
        if !callback.is_taken || callback.epoch != delivery.epoch {
            return Ok(None);
        }
        let change = match settlement.fate {
            Fate::Gone | Fate::Dead { .. } => RecordChange::delete(Kind::Callback, record.key),
            Fate::Retry { due_at } => {
                callback.is_taken = false;
                callback.attempts += 1;
                callback.circuit = settlement.circuit.clone();
                let rested = settlement.circuit.rest_until().unwrap_or(due_at);
                callback.put(&record.place, due_at.max(rested))?
            }
        };
        Ok(Some(vec![change.expecting(Expected::Version(record.version))]))
    }

    async fn settle_webhook(
        &self,
        delivery: &Delivery,
        settlement: &Settlement,
    ) -> Result<Option<Vec<RecordChange>>, StoreError> {
        let id = &delivery.webhook.id;
        let (Some(version), mut queue) = self.queue(id).await? else { return Ok(None) };
        if !queue.is_taken || queue.epoch != delivery.epoch {
            return Ok(None);
        }
        let Some(record) = self.record(id).await? else { return Ok(None) };
        let (webhook, secret) = Webhook::open(&record)?;
        let taken = self.store.get(Kind::WebhookDelivery, &delivery.key).await?;
        let mut changes = Vec::new();
        let mut left = self.settle_others(delivery, settlement, &mut changes).await?;
        if let Some(taken) = &taken {
            changes.extend(settle_one(taken, settlement)?);
            if let Fate::Retry { due_at } = settlement.fate {
                left = Some(left.map_or(due_at, |other| other.min(due_at)));
            }
        }
        let rested = settlement.circuit.rest_until();
        let free_at = left.filter(|_| !settlement.circuit.has_failed());
        let free_at = free_at.map(|at| rested.map_or(at, |rested| rested.max(at)));
        queue.is_taken = false;
        changes.push(queue.put(&webhook.scope, free_at)?.expecting(Expected::Version(version)));
        if webhook.circuit != settlement.circuit {
            let webhook = Webhook { circuit: settlement.circuit.clone(), ..webhook };
            changes.push(webhook.put(&secret)?.expecting(Expected::Version(record.version)));
        }
        Ok(Some(changes))
    }

    /// What becomes of a webhook's other deliveries; answers when the first of those that are left is due.
    async fn settle_others(
        &self,
        delivery: &Delivery,
        settlement: &Settlement,
        changes: &mut Vec<RecordChange>,
    ) -> Result<Option<Timestamp>, StoreError> {
        let id = &delivery.webhook.id;
        let waiting = below(Kind::WebhookDelivery, id);
        if settlement.others == Others::Wait {
            let first = self.store.scan(&waiting.limit(2)).await?;
            let other = first.into_iter().find(|record| record.key != delivery.key);
            return Ok(other.and_then(|record| record.due_at));
        }
        loop {
            let found = self.store.scan(&waiting.clone().limit(PAGE)).await?;
            let is_last = found.len() < PAGE;
            let mut page = Vec::new();
            for record in found.iter().filter(|record| record.key != delivery.key) {
                page.push(RecordChange::delete(record.kind, record.key.clone()));
                if settlement.others == Others::Bury {
                    let planned: Planned = record.read()?;
                    page.push(planned.bury(&record.place, settlement.at, Others::BURIED)?);
                }
            }
            if is_last {
                changes.extend(page);
                return Ok(None);
            }
            self.write(page).await?;
        }
    }

    /// Ends every lease: for a process that knows that it is the only one, before it delivers anything.
    pub async fn void_leases(&self) -> Result<(), StoreError> {
        for kind in [Kind::WebhookQueue, Kind::Callback] {
            let taken = RecordQuery::all(kind, Within::Everywhere).with(TAKEN, YES);
            for record in self.store.scan(&taken).await? {
                let now = Timestamp::default();
                let free = if kind == Kind::Callback {
                    let callback: Callback = record.read()?;
                    Callback { is_taken: false, ..callback }.put(&record.place, now)?
                } else {
                    let queue = Queue::read(&record)?;
                    Queue { is_taken: false, ..queue }.put(&record.place, Some(now))?
                };
                self.write([free]).await?;
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        records: impl IntoIterator<Item = RecordChange>,
    ) -> Result<(), StoreError> {
        self.store.commit(Batch::of_records(records)).await
    }
}

/// When a delivery of a webhook can be made.
fn free_at(delivery: &Record, webhook: &Webhook) -> Option<Timestamp> {
    let due_at = delivery.due_at?;
    Some(webhook.circuit.rest_until().map_or(due_at, |rested| rested.max(due_at)))
}

fn settle_one(taken: &Record, settlement: &Settlement) -> Result<Vec<RecordChange>, StoreError> {
    let mut changes = vec![RecordChange::delete(taken.kind, taken.key.clone())];
    let planned: Planned = taken.read()?;
    let planned = Planned { attempts: planned.attempts + 1, ..planned };
    match &settlement.fate {
        Fate::Gone => {}
        Fate::Retry { due_at } => changes.push(planned.put(&taken.place, *due_at)?),
        Fate::Dead { reason } => changes.push(planned.bury(&taken.place, settlement.at, reason)?),
    }
    Ok(changes)
}
