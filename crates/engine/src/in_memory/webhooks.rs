//! Webhooks in memory: subscriptions, the cursor, deliveries.

use std::collections::BTreeMap;

use async_trait::async_trait;

use callboard_protocol::{RunId, Timestamp, WebhookId};

use super::{InMemoryStore, StoredRun, Tables, index};
use crate::store::{Scope, StoreError};
use crate::webhooks::{
    Callback, DeadLetter, Delivery, Fate, LogPosition, Logged, Others, Plan, Secret, Settlement,
    TakeRequest, Taken, Unplanned, Webhook, Webhooks,
};

#[derive(Default)]
pub(super) struct Subscribed {
    webhooks: Vec<Entry>,
    cursor: LogPosition,
    deliveries: BTreeMap<u64, Row>,
    last_delivery: u64,
}

struct Entry {
    webhook: Webhook,
    /// None for a callback.
    secret: Option<Secret>,
    epoch: u64,
    lease_until: Option<Timestamp>,
}

struct Row {
    webhook: WebhookId,
    event: LogPosition,
    attempts: u32,
    state: State,
}

enum State {
    Due(Timestamp),
    Dead { at: Timestamp, reason: String },
}

impl Entry {
    fn new(webhook: Webhook, secret: Option<Secret>) -> Self {
        Self { webhook, secret, epoch: 0, lease_until: None }
    }

    fn is_callback(&self) -> bool {
        self.secret.is_none()
    }

    /// A key of a workspace sees the webhooks of that workspace; one of the whole tenant sees all.
    fn is_visible(&self, scope: &Scope) -> bool {
        let webhook = &self.webhook;
        !self.is_callback()
            && scope.tenant == webhook.scope.tenant
            && scope.mode == webhook.scope.mode
            && (scope.workspace.is_none() || scope.workspace == webhook.scope.workspace)
    }
}

impl Row {
    fn due_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Due(at) => Some(at),
            State::Dead { .. } => None,
        }
    }
}

impl Subscribed {
    pub(super) fn void_leases(&mut self) {
        self.webhooks.iter_mut().for_each(|entry| entry.lease_until = None);
    }

    /// Whether somebody has yet to be told of a run, or could not be.
    pub(super) fn waits_for(&self, run: &RunId, log: &[(RunId, u64)]) -> bool {
        let is_of_run = |position: u64| {
            let place = index(position).checked_sub(1).and_then(|place| log.get(place));
            place.is_some_and(|(of, _)| of == run)
        };
        let is_planned = self.deliveries.values().any(|row| is_of_run(row.event.0));
        let mut unread = self.cursor.0 + 1..=log.len() as u64;
        is_planned || (self.is_anybody_subscribed() && unread.any(is_of_run))
    }

    fn is_anybody_subscribed(&self) -> bool {
        !self.webhooks.iter().all(Entry::is_callback)
    }

    /// Sends questions on their way, of an append that begins at this sequence and this position of all logs.
    pub(super) fn call_back(&mut self, callbacks: Vec<Callback>, sequence: u64, position: u64) {
        for callback in callbacks {
            let webhook = callback.webhook;
            let row = Row {
                webhook: webhook.id.clone(),
                event: LogPosition(position + (callback.sequence - sequence)),
                attempts: 0,
                state: State::Due(webhook.created_at),
            };
            self.webhooks.push(Entry::new(webhook, None));
            self.last_delivery += 1;
            self.deliveries.insert(self.last_delivery, row);
        }
    }

    fn remove(&mut self, scope: &Scope, id: &WebhookId) -> bool {
        let before = self.webhooks.len();
        self.webhooks.retain(|entry| entry.webhook.id != *id || !entry.is_visible(scope));
        let is_removed = self.webhooks.len() < before;
        if is_removed {
            self.forget(id);
        }
        is_removed
    }

    fn forget(&mut self, id: &WebhookId) {
        self.webhooks.retain(|entry| entry.webhook.id != *id);
        self.deliveries.retain(|_, row| row.webhook != *id);
    }

    fn plan(&mut self, plan: Plan) -> bool {
        if self.cursor != plan.from {
            return false;
        }
        self.cursor = plan.to;
        for planned in plan.deliveries {
            if self.webhooks.iter().any(|entry| entry.webhook.id == planned.webhook) {
                self.last_delivery += 1;
                let row = Row {
                    webhook: planned.webhook,
                    event: planned.event,
                    attempts: 0,
                    state: State::Due(plan.at),
                };
                self.deliveries.insert(self.last_delivery, row);
            }
        }
        true
    }

    /// The first due delivery of a webhook, and when it is due.
    fn first(&self, id: &WebhookId) -> Option<(Timestamp, u64)> {
        let rows = self.deliveries.iter().filter(|(_, row)| row.webhook == *id);
        let due = rows.filter_map(|(id, row)| Some((row.due_at()?, row.event, *id)));
        due.min().map(|(at, _, id)| (at, id))
    }

    /// Deliveries to take with their webhooks' places, and when the next can be taken.
    fn due(&self, request: &TakeRequest) -> (Vec<(usize, u64)>, Option<Timestamp>) {
        let mut due = Vec::new();
        let mut next = None;
        for (place, entry) in self.webhooks.iter().enumerate() {
            if entry.webhook.circuit.has_failed() {
                continue;
            }
            let Some((at, delivery)) = self.first(&entry.webhook.id) else { continue };
            let free_at = [Some(at), entry.webhook.circuit.rest_until(), entry.lease_until];
            let free_at = free_at.into_iter().flatten().max().unwrap_or(at);
            match free_at <= request.at {
                true => due.push((at, place, delivery)),
                false => next = Some(next.map_or(free_at, |next: Timestamp| next.min(free_at))),
            }
        }
        // Who has waited longest comes first, or a busy webhook would starve the others.
        due.sort_unstable();
        due.truncate(request.most);
        (due.into_iter().map(|(_, place, delivery)| (place, delivery)).collect(), next)
    }

    fn settle(&mut self, settlement: Settlement) -> bool {
        let Settlement { delivery, webhook, epoch, at, fate, circuit, others, forget_before } =
            settlement;
        let held = self.webhooks.iter_mut().find(|entry| {
            entry.webhook.id == webhook && entry.epoch == epoch && entry.lease_until.is_some()
        });
        let Some(entry) = held else { return false };
        entry.lease_until = None;
        entry.webhook.circuit = circuit;
        if entry.is_callback() && !matches!(fate, Fate::Retry { .. }) {
            self.forget(&webhook);
            return true;
        }
        if let Some(row) = self.deliveries.get_mut(&delivery) {
            row.attempts += 1;
            match fate {
                Fate::Gone => {
                    self.deliveries.remove(&delivery);
                }
                Fate::Retry { due_at } => row.state = State::Due(due_at),
                Fate::Dead { reason } => row.state = State::Dead { at, reason },
            }
        }
        self.settle_others(&webhook, others, at);
        self.deliveries.retain(|_, row| {
            row.webhook != webhook
                || !matches!(row.state, State::Dead { at, .. } if at < forget_before)
        });
        true
    }

    fn settle_others(&mut self, webhook: &WebhookId, others: Others, at: Timestamp) {
        match others {
            Others::Wait => {}
            Others::Skip => {
                self.deliveries.retain(|_, row| row.webhook != *webhook || row.due_at().is_none());
            }
            Others::Bury => {
                let waiting = self.deliveries.values_mut();
                for row in waiting.filter(|row| row.webhook == *webhook && row.due_at().is_some()) {
                    row.state = State::Dead { at, reason: Others::BURIED.to_owned() };
                }
            }
        }
    }
}

impl Tables {
    /// The run and the place in its log where a position points to. Positions begin at one.
    fn at(&self, position: LogPosition) -> Option<(&StoredRun, usize)> {
        let (run, sequence) = self.log.get(index(position.0).checked_sub(1)?)?;
        Some((self.runs.get(run)?, index(*sequence)))
    }

    fn logged(&self, position: LogPosition) -> Option<Logged> {
        let (run, sequence) = self.at(position)?;
        Some(Logged {
            position,
            kind: run.rows.get(sequence)?.kind.clone(),
            scope: Scope::of(&run.birth),
            tags: run.birth.tags.clone(),
            is_replay: run.birth.is_replay(),
        })
    }

    fn unplanned(&self, limit: usize) -> Unplanned {
        let entries = self.subscribed.webhooks.iter();
        let webhooks: Vec<Webhook> = entries
            .filter(|entry| !entry.is_callback() && !entry.webhook.circuit.has_failed())
            .map(|entry| entry.webhook.clone())
            .collect();
        let cursor = self.subscribed.cursor;
        let most = if webhooks.is_empty() { 0 } else { limit };
        let positions = (cursor.0 + 1..=self.log.len() as u64).take(most).map(LogPosition);
        Unplanned {
            cursor,
            webhooks,
            events: positions.filter_map(|at| self.logged(at)).collect(),
            has_callbacks: self.subscribed.webhooks.iter().any(Entry::is_callback),
        }
    }

    fn delivery(&self, place: usize, id: u64) -> Option<Delivery> {
        let entry = self.subscribed.webhooks.get(place)?;
        let row = self.subscribed.deliveries.get(&id)?;
        let (run, sequence) = self.at(row.event)?;
        Some(Delivery {
            id,
            epoch: entry.epoch,
            webhook: entry.webhook.clone(),
            secret: entry.secret.clone(),
            attempts: row.attempts,
            event: run.recorded(sequence, run.rows.get(sequence)?),
            tenant: run.birth.owner.tenant.clone(),
            workspace: run.birth.owner.workspace.clone(),
        })
    }

    fn take(&mut self, request: &TakeRequest) -> Taken {
        let (due, next) = self.subscribed.due(request);
        for (place, _) in &due {
            if let Some(entry) = self.subscribed.webhooks.get_mut(*place) {
                entry.epoch += 1;
                entry.lease_until = Some(request.until);
            }
        }
        let deliveries = due.into_iter().filter_map(|(place, id)| self.delivery(place, id));
        Taken { deliveries: deliveries.collect(), next }
    }

    fn dead_letter(&self, id: u64, row: &Row, since: Timestamp) -> Option<DeadLetter> {
        let State::Dead { at, reason } = &row.state else { return None };
        let (run, sequence) = self.at(row.event)?;
        (*at >= since).then(|| DeadLetter {
            id,
            run: run.birth.run_id.clone(),
            sequence: sequence as u64,
            kind: run.rows.get(sequence).map(|row| row.kind.clone()).unwrap_or_default(),
            attempts: row.attempts,
            reason: reason.clone(),
            dead_at: *at,
        })
    }
}

#[async_trait]
impl Webhooks for InMemoryStore {
    async fn register_webhook(&self, webhook: Webhook, secret: Secret) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let since = LogPosition(tables.log.len() as u64);
        let subscribed = &mut tables.subscribed;
        if !subscribed.is_anybody_subscribed() {
            subscribed.cursor = since;
        }
        let webhook = Webhook { since, ..webhook };
        subscribed.webhooks.push(Entry::new(webhook, Some(secret)));
        Ok(())
    }

    async fn webhooks(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError> {
        let tables = self.tables();
        let entries = tables.subscribed.webhooks.iter();
        let visible = entries.filter(|entry| entry.is_visible(scope));
        Ok(visible.map(|entry| entry.webhook.clone()).collect())
    }

    async fn remove_webhook(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        Ok(self.tables().subscribed.remove(scope, id))
    }

    async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        let tables = self.tables();
        let webhooks = &tables.subscribed.webhooks;
        if !webhooks.iter().any(|own| own.webhook.id == *id && own.is_visible(scope)) {
            return Ok(None);
        }
        let rows = tables.subscribed.deliveries.iter().filter(|(_, row)| row.webhook == *id);
        let dead = rows.filter_map(|(id, row)| tables.dead_letter(*id, row, since));
        let mut dead: Vec<DeadLetter> = dead.collect();
        dead.sort_by_key(|letter| std::cmp::Reverse((letter.dead_at, letter.id)));
        dead.truncate(limit);
        Ok(Some(dead))
    }

    async fn read_unplanned(&self, limit: usize) -> Result<Unplanned, StoreError> {
        Ok(self.tables().unplanned(limit))
    }

    async fn plan_deliveries(&self, plan: Plan) -> Result<bool, StoreError> {
        Ok(self.tables().subscribed.plan(plan))
    }

    async fn take_deliveries(&self, request: &TakeRequest) -> Result<Taken, StoreError> {
        Ok(self.tables().take(request))
    }

    async fn settle_delivery(&self, settlement: Settlement) -> Result<bool, StoreError> {
        Ok(self.tables().subscribed.settle(settlement))
    }
}
