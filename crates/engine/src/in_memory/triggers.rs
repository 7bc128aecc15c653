//! Trigger subscriptions in memory.

use async_trait::async_trait;

use callboard_protocol::{RosterId, SubscriptionState, Timestamp};

use super::{InMemoryStore, Tables};
use crate::records::{IndexEntry, Key, Kind};
use crate::store::{NewRun, Scope, StoreError};
use crate::triggers::{
    Arrival, ArrivalState, DeadReason, DueArrivals, Kept, Settled, SigningSecrets, Subscription,
    Triggers,
};

/// Subscriptions with their secrets, and what came in.
#[derive(Default)]
pub(super) struct Inbound {
    subscriptions: Vec<(Subscription, SigningSecrets)>,
    arrivals: Vec<Arrival>,
}

impl Inbound {
    fn find(&mut self, id: &str) -> Option<&mut (Subscription, SigningSecrets)> {
        self.subscriptions.iter_mut().find(|(known, _)| known.id == id)
    }

    /// Whether a queue of work, which may not be there yet, takes something that did not come before.
    pub(super) fn takes(&self, queue: &Subscription, arrival: &Arrival) -> bool {
        let is_known = |known: &Arrival| {
            known.subscription == queue.id && known.dedup_key == arrival.dedup_key
        };
        self.is_open(&queue.id) && !self.arrivals.iter().any(is_known)
    }

    pub(super) fn take(&mut self, queue: Subscription, arrival: Arrival) {
        if self.find(&queue.id).is_none() {
            self.subscriptions.push((queue, SigningSecrets::default()));
        }
        self.arrivals.push(arrival);
    }

    /// Whether a queue of work takes anything. One that is not there yet does.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.state(id).is_none_or(|state| state == SubscriptionState::Active)
    }

    fn state(&self, id: &str) -> Option<SubscriptionState> {
        self.subscriptions.iter().find(|(known, _)| known.id == id).map(|(known, _)| known.state)
    }
}

impl Tables {
    /// What fires for a member goes with it.
    pub(super) fn forget_triggers(&mut self, scope: &Scope, member: &RosterId) {
        let Scope { tenant, mode, .. } = scope;
        let theirs = Key::in_realm(&scope.realm(), [member.as_str()]).as_str().to_owned();
        self.records.forget(Kind::Schedule, &IndexEntry { name: "member", value: theirs });
        let queue = Subscription::work_queue_id(tenant, member, *mode);
        let inbound = &mut self.inbound;
        inbound.subscriptions.retain(|(known, _)| known.id != queue);
        inbound.arrivals.retain(|known| known.subscription != queue);
    }
}

fn moved(id: &str) -> StoreError {
    StoreError::Moved { what: id.to_owned() }
}

#[async_trait]
impl Triggers for InMemoryStore {
    async fn add_subscription(
        &self,
        subscription: Subscription,
        secrets: SigningSecrets,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.inbound.find(&subscription.id).is_some() {
            return Err(moved(&subscription.id));
        }
        tables.inbound.subscriptions.push((subscription, secrets));
        Ok(())
    }

    async fn subscriptions(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
        let tables = self.tables();
        let all = tables.inbound.subscriptions.iter().map(|(known, _)| known);
        Ok(all.filter(|known| scope.includes(&known.place)).cloned().collect())
    }

    async fn subscription(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Subscription>, StoreError> {
        let mut tables = self.tables();
        let found = tables.inbound.find(id).map(|(known, _)| known.clone());
        Ok(found.filter(|known| scope.includes(&known.place)))
    }

    async fn open_subscription(
        &self,
        id: &str,
    ) -> Result<Option<(Subscription, SigningSecrets)>, StoreError> {
        Ok(self.tables().inbound.find(id).cloned())
    }

    async fn change_subscription(
        &self,
        subscription: Subscription,
        expected: u64,
        secrets: Option<SigningSecrets>,
        telling: Option<NewRun>,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let id = subscription.id.clone();
        let is_current = |known: &&mut (Subscription, SigningSecrets)| known.0.version == expected;
        if tables.inbound.find(&id).filter(is_current).is_none() {
            return Err(moved(&id));
        }
        if let Some(run) = telling {
            tables.create(run)?;
        }
        if let Some(known) = tables.inbound.find(&id) {
            known.0 = subscription;
            known.1 = secrets.unwrap_or_else(|| known.1.clone());
        }
        Ok(())
    }

    async fn remove_subscription(&self, scope: &Scope, id: &str) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_theirs = tables.inbound.find(id).is_some_and(|it| scope.includes(&it.0.place));
        if is_theirs {
            tables.inbound.subscriptions.retain(|(known, _)| known.id != id);
            tables.inbound.arrivals.retain(|known| known.subscription != id);
        }
        Ok(is_theirs)
    }

    async fn keep_arrival(
        &self,
        arrival: Arrival,
        run: Option<NewRun>,
    ) -> Result<Kept, StoreError> {
        let mut tables = self.tables();
        match tables.inbound.state(&arrival.subscription) {
            Some(SubscriptionState::Active) => {}
            state => return Ok(Kept::NotActive(state.unwrap_or(SubscriptionState::Failed))),
        }
        let is_same = |known: &&Arrival| {
            known.subscription == arrival.subscription && known.dedup_key == arrival.dedup_key
        };
        if let Some(known) = tables.inbound.arrivals.iter().find(is_same) {
            return Ok(Kept::Known(Box::new(known.clone())));
        }
        if let Some(run) = run {
            tables.create(run)?;
        }
        tables.inbound.arrivals.push(arrival);
        Ok(Kept::New)
    }

    async fn note_refused(&self, arrival: Arrival, most: usize) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let subscription = arrival.subscription.clone();
        tables.inbound.arrivals.push(arrival);
        let is_refused = |known: &Arrival| {
            let reason = DeadReason::VerificationFailed;
            known.subscription == subscription
                && matches!(known.state, ArrivalState::Dead { reason: why, .. } if why == reason)
        };
        let count = tables.inbound.arrivals.iter().filter(|known| is_refused(known)).count();
        let mut spare = count.saturating_sub(most);
        tables.inbound.arrivals.retain(|known| {
            let goes = spare > 0 && is_refused(known);
            spare -= usize::from(goes);
            !goes
        });
        Ok(())
    }

    async fn due_arrivals(&self, at: Timestamp, most: usize) -> Result<DueArrivals, StoreError> {
        let tables = self.tables();
        let inbound = &tables.inbound;
        let mut waiting: Vec<(Timestamp, &Arrival)> = inbound
            .arrivals
            .iter()
            .filter(|known| inbound.state(&known.subscription) == Some(SubscriptionState::Active))
            .filter_map(|known| match known.state {
                ArrivalState::Waiting { due_at } => Some((due_at, known)),
                ArrivalState::Delivered { .. } | ArrivalState::Dead { .. } => None,
            })
            .collect();
        waiting.sort_by_key(|(due_at, _)| *due_at);
        let next = waiting.iter().map(|(due_at, _)| *due_at).find(|due_at| *due_at > at);
        let due = waiting.into_iter().filter(|(due_at, _)| *due_at <= at).take(most);
        Ok(DueArrivals { arrivals: due.map(|(_, known)| known.clone()).collect(), next })
    }

    async fn settle_arrival(&self, settled: Settled, expected: u64) -> Result<(), StoreError> {
        let Settled { arrival, run, buries } = settled;
        let mut tables = self.tables();
        let place = tables.inbound.arrivals.iter().position(|known| known.id == arrival.id);
        let place = place.filter(|place| tables.inbound.arrivals[*place].version == expected);
        let place = place.ok_or_else(|| moved(&arrival.id))?;
        if let Some(run) = run {
            tables.create(run)?;
        }
        let (subscription, state) = (arrival.subscription.clone(), arrival.state.clone());
        tables.inbound.arrivals[place] = arrival;
        if buries {
            if let Some((known, _)) = tables.inbound.find(&subscription) {
                known.state = SubscriptionState::DeadLettered;
                known.version += 1;
            }
            for known in &mut tables.inbound.arrivals {
                let is_waiting = matches!(known.state, ArrivalState::Waiting { .. });
                if known.subscription == subscription && is_waiting {
                    known.state = state.clone();
                    known.version += 1;
                }
            }
        }
        Ok(())
    }

    async fn arrival(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<Option<Arrival>, StoreError> {
        let tables = self.tables();
        let found = tables.inbound.arrivals.iter().find(|known| {
            known.id == id && known.subscription == subscription && scope.includes(&known.place)
        });
        Ok(found.cloned())
    }

    async fn dead_arrivals(
        &self,
        scope: &Scope,
        subscription: &str,
        since: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<Arrival>, StoreError> {
        let tables = self.tables();
        let mut dead: Vec<((Timestamp, &str), &Arrival)> = tables
            .inbound
            .arrivals
            .iter()
            .filter(|known| known.subscription == subscription && scope.includes(&known.place))
            .filter_map(|known| match known.state {
                ArrivalState::Dead { at, .. } => Some(((at, known.id.as_str()), known)),
                ArrivalState::Waiting { .. } | ArrivalState::Delivered { .. } => None,
            })
            .filter(|((at, _), _)| *at >= since)
            .filter(|(place, _)| after.as_ref().is_none_or(|(at, id)| *place < (*at, id.as_str())))
            .collect();
        dead.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        Ok(dead.into_iter().take(limit).map(|(_, known)| known.clone()).collect())
    }

    async fn forget_arrivals(
        &self,
        delivered_before: Timestamp,
        dead_before: Timestamp,
    ) -> Result<(), StoreError> {
        self.tables().inbound.arrivals.retain(|known| match known.state {
            ArrivalState::Waiting { .. } => true,
            ArrivalState::Delivered { at, .. } => at >= delivered_before,
            ArrivalState::Dead { at, .. } => at >= dead_before,
        });
        Ok(())
    }
}
