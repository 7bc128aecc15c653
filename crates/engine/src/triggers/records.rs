//! Subscriptions and what came in over them, as records: every rule about them stands here once.

use std::sync::Arc;

use callboard_protocol::{RunId, SubscriptionState, Timestamp};

use super::delivery::{DeadReason, ID, InboundDelivery, InboundState, RefusedPosts, WAITING};
use super::subscription::{SigningSecrets, Subscription};
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, NewRun, Scope, Store, StoreError};

/// How often something is decided anew because others were faster. A caller that loses so often tries again later.
const MOST_TRIES: usize = 8;
/// Records that are removed at once when their subscription is.
const PAGE: usize = 256;

/// Subscriptions and deliveries of all tenants.
#[derive(Debug, Clone)]
pub struct Triggers {
    store: Arc<dyn Store>,
}

/// What keeping a delivery came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Keeping {
    New,
    /// The same thing came before.
    Known(Box<InboundDelivery>),
    /// The subscription takes nothing now.
    NotActive(SubscriptionState),
}

#[derive(Debug, Clone, Default)]
pub struct DueDeliveries {
    pub deliveries: Vec<InboundDelivery>,
    /// When another that is not due yet becomes so.
    pub next: Option<Timestamp>,
    /// Whether as many were due as were asked for.
    pub is_full: bool,
}

impl Triggers {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn add_subscription(
        &self,
        subscription: Subscription,
        secrets: SigningSecrets,
    ) -> Result<(), StoreError> {
        let new = subscription.put(secrets)?.expecting(Expected::Absent);
        self.store.commit(Batch::of_records([new])).await
    }

    /// Those that the caller may see, oldest first.
    pub async fn subscriptions(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
        let all = RecordQuery::all(Kind::Subscription, Within::VisibleTo(scope.clone()));
        let mut found = self.store.scan(&all).await?;
        found.sort_by_key(|record| record.position);
        found.iter().map(Subscription::read).collect()
    }

    pub async fn subscription(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Subscription>, StoreError> {
        let found = self.open_subscription(id).await?.map(|(known, _)| known);
        Ok(found.filter(|known| scope.includes(&known.place)))
    }

    /// For callers that know its id, which is all that strangers have: with the secret that signs their posts.
    pub async fn open_subscription(
        &self,
        id: &str,
    ) -> Result<Option<(Subscription, SigningSecrets)>, StoreError> {
        let found = self.store.get(Kind::Subscription, &Subscription::key(id)).await?;
        found.as_ref().map(Subscription::open).transpose()
    }

    pub(super) async fn may_see(&self, scope: &Scope, run: &RunId) -> Result<bool, StoreError> {
        Ok(self.store.find(scope, run).await?.is_some())
    }

    pub(super) async fn get(&self, kind: Kind, key: &Key) -> Result<Option<Record>, StoreError> {
        self.store.get(kind, key).await
    }

    pub(super) async fn scan(&self, query: &RecordQuery) -> Result<Vec<Record>, StoreError> {
        self.store.scan(query).await
    }

    /// Replaces a subscription that still has the version `expected`, with the run that states it; otherwise
    /// [`StoreError::Moved`]. No secrets leaves them as they are. One that becomes active takes up what waits.
    pub async fn change_subscription(
        &self,
        subscription: Subscription,
        expected: u64,
        secrets: Option<SigningSecrets>,
        audit: Option<NewRun>,
    ) -> Result<(), StoreError> {
        for _ in 0..MOST_TRIES {
            let known = self.open_subscription(&subscription.id).await?;
            let Some((known, kept)) = known.filter(|(known, _)| known.version == expected) else {
                break;
            };
            let secrets = secrets.clone().unwrap_or(kept);
            let mut records =
                vec![subscription.put(secrets)?.expecting(Expected::Version(expected))];
            if subscription.is_active() && !known.is_active() {
                for waiting in self.waiting(&subscription.id).await? {
                    let standing = Expected::Version(waiting.version);
                    records.push(waiting.put_alone()?.expecting(standing));
                }
            }
            match self.commit(records, audit.clone()).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done,
            }
        }
        Err(moved(&subscription.id))
    }

    /// Removes a subscription of the scope with what came in over it; answers whether it was there.
    pub async fn remove_subscription(&self, scope: &Scope, id: &str) -> Result<bool, StoreError> {
        if self.subscription(scope, id).await?.is_none() {
            return Ok(false);
        }
        let key = Subscription::key(id);
        let gone = RecordChange::delete(Kind::Subscription, key.clone());
        let refused = RecordChange::delete(Kind::RefusedPosts, key.clone());
        let filtered = RecordChange::delete(Kind::FilteredPosts, key);
        let gone = vec![gone.expecting(Expected::Present), refused, filtered];
        match self.commit(gone, None).await {
            Err(StoreError::Moved { .. }) => return Ok(false),
            done => done?,
        }
        self.forget_deliveries(id).await?;
        Ok(true)
    }

    /// Removes what came in over a subscription that is gone. Whatever a crash leaves behind goes when it is due.
    async fn forget_deliveries(&self, subscription: &str) -> Result<(), StoreError> {
        for kind in [Kind::InboundDelivery, Kind::InboundDeadLetter] {
            let page = RecordQuery::all(kind, Within::Everywhere)
                .below(Subscription::key(subscription))
                .limit(PAGE);
            loop {
                let found = self.store.scan(&page).await?;
                let is_last = found.len() < PAGE;
                let gone = found.into_iter().map(|record| RecordChange::delete(kind, record.key));
                self.store.commit(Batch::of_records(gone)).await?;
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Keeps something that came in, with the run that it became if it did, or says why not. Of two with one key
    /// the first is kept.
    pub async fn keep_delivery(
        &self,
        delivery: InboundDelivery,
        run: Option<NewRun>,
    ) -> Result<Keeping, StoreError> {
        for _ in 0..MOST_TRIES {
            let known = self.open_subscription(&delivery.subscription).await?;
            let Some((subscription, _)) = known else {
                return Ok(Keeping::NotActive(SubscriptionState::Failed));
            };
            if !subscription.is_active() {
                return Ok(Keeping::NotActive(subscription.state));
            }
            let mut records = vec![stands(&subscription)];
            records.extend(new(&delivery)?);
            match self.commit(records, run.clone()).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done.map(|()| Keeping::New),
            }
            let (of, key) = (&delivery.subscription, &delivery.dedup_key);
            if let Some(known) = self.delivery(&subscription.place, of, key).await? {
                return Ok(Keeping::Known(Box::new(known)));
            }
        }
        Err(moved(&delivery.id))
    }

    /// Keeps that a post was refused, and no more than `most` of these for each subscription. One that is lost among
    /// very many at once is no loss.
    pub async fn note_refused(
        &self,
        subscription: &Subscription,
        id: String,
        at: Timestamp,
        most: usize,
    ) -> Result<(), StoreError> {
        let key = Subscription::key(&subscription.id);
        for _ in 0..MOST_TRIES {
            let standing = self.store.get(Kind::RefusedPosts, &key).await?;
            let expected = standing
                .as_ref()
                .map_or(Expected::Absent, |record| Expected::Version(record.version));
            let mut posts: RefusedPosts =
                standing.as_ref().map(Record::read).transpose()?.unwrap_or_default();
            posts.note(id.clone(), at, most);
            let place = subscription.place.clone();
            let put = RecordChange::put(Kind::RefusedPosts, key.clone(), place, &posts)?;
            let is_there = RecordChange::check(Kind::Subscription, key.clone(), Expected::Present);
            match self.commit(vec![is_there, put.expecting(expected)], None).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done,
            }
        }
        Ok(())
    }

    /// Reads up to `most` deliveries of active subscriptions that are to be tried again by now, the longest due first.
    /// Whatever else is due is put in order: what is old enough is forgotten, what a paused subscription keeps waiting
    /// is set aside until that is active again.
    pub async fn due_deliveries(
        &self,
        at: Timestamp,
        most: usize,
    ) -> Result<DueDeliveries, StoreError> {
        let due = self.store.due(Kind::InboundDelivery, at, most).await?;
        let is_full = due.records.len() == most;
        let mut deliveries = Vec::new();
        let mut changes = Vec::new();
        for record in &due.records {
            let delivery = InboundDelivery::read(record)?;
            let of = self.open_subscription(&delivery.subscription).await?;
            match put_in_order(&delivery, of.as_ref().map(|(of, _)| of), at)? {
                Some(change) => changes.extend(change),
                None => deliveries.push(delivery),
            }
        }
        let old = self.store.due(Kind::InboundDeadLetter, at, most).await?.records.into_iter();
        changes.extend(old.map(|letter| RecordChange::delete(letter.kind, letter.key)));
        if !changes.is_empty() {
            match self.commit(changes, None).await {
                // Another host was faster; what is left comes again.
                Err(StoreError::Moved { .. }) => {}
                done => done?,
            }
        }
        Ok(DueDeliveries { deliveries, next: due.next, is_full })
    }

    /// Keeps what became of a delivery that still has the version `expected`, with the run that it became or that
    /// states it; otherwise [`StoreError::Moved`].
    pub async fn settle_delivery(
        &self,
        delivery: &InboundDelivery,
        expected: u64,
        run: Option<NewRun>,
    ) -> Result<(), StoreError> {
        self.commit(replacing(delivery, expected)?, run).await
    }

    /// The same for a delivery that its subscription is given up with, and whatever else waits there.
    pub async fn give_up(
        &self,
        delivery: &InboundDelivery,
        expected: u64,
        run: NewRun,
    ) -> Result<(), StoreError> {
        for _ in 0..MOST_TRIES {
            let mut records = replacing(delivery, expected)?;
            let mut is_there = false;
            for mut other in self.waiting(&delivery.subscription).await? {
                if other.dedup_key == delivery.dedup_key {
                    is_there = other.version == expected;
                } else {
                    other.state = delivery.state.clone();
                    records.extend(replacing(&other, other.version)?);
                }
            }
            if !is_there {
                break;
            }
            if let Some((known, secrets)) = self.open_subscription(&delivery.subscription).await? {
                let state = SubscriptionState::DeadLettered;
                let standing = Expected::Version(known.version);
                records.push(Subscription { state, ..known }.put(secrets)?.expecting(standing));
            }
            match self.commit(records, Some(run.clone())).await {
                Err(StoreError::Moved { .. }) => {}
                done => return done,
            }
        }
        Err(moved(&delivery.id))
    }

    /// Keeps that a dead letter became a run after all: once, or it is [`StoreError::Moved`].
    pub async fn redeliver(
        &self,
        letter: &InboundDelivery,
        at: Timestamp,
        run: NewRun,
    ) -> Result<(), StoreError> {
        let InboundState::Dead { at: died_at, .. } = letter.state else {
            return Err(moved(&letter.id));
        };
        let key = InboundDelivery::letter_key(&letter.subscription, died_at, &letter.id);
        let gone = RecordChange::delete(Kind::InboundDeadLetter, key).expecting(Expected::Present);
        let state = InboundState::Delivered { run: run.birth.run_id.clone(), at };
        let delivered = InboundDelivery { state, event: None, ..letter.clone() };
        let mut changes = vec![gone];
        changes.extend(delivered.put()?);
        self.commit(changes, Some(run)).await
    }

    /// One delivery that the caller may see.
    pub async fn delivery(
        &self,
        scope: &Scope,
        subscription: &str,
        dedup_key: &str,
    ) -> Result<Option<InboundDelivery>, StoreError> {
        let key = InboundDelivery::key(subscription, dedup_key);
        let found = self.store.get(Kind::InboundDelivery, &key).await?;
        let found = found.filter(|record| scope.includes(&record.place));
        found.as_ref().map(InboundDelivery::read).transpose()
    }

    /// One dead letter, with its content, that the caller may see.
    pub async fn dead_letter(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<Option<InboundDelivery>, StoreError> {
        let query = RecordQuery::all(Kind::InboundDeadLetter, Within::VisibleTo(scope.clone()))
            .with(ID, InboundDelivery::letter_index(subscription, id))
            .limit(1);
        self.store.scan(&query).await?.first().map(InboundDelivery::read).transpose()
    }

    /// What was given up or refused since then, newest first, behind the place of `after`.
    pub async fn dead_letters(
        &self,
        scope: &Scope,
        subscription: &str,
        since: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<InboundDelivery>, StoreError> {
        let of =
            |(at, id): &(Timestamp, String)| InboundDelivery::letter_key(subscription, *at, id);
        let page = RecordQuery::all(Kind::InboundDeadLetter, Within::VisibleTo(scope.clone()))
            .below(Subscription::key(subscription))
            .descending()
            .after(after.as_ref().map(of))
            .limit(limit);
        let letters = self.store.scan(&page).await?;
        let letters = letters.iter().map(InboundDelivery::read);
        let mut letters = letters.collect::<Result<Vec<_>, _>>()?;
        let key = Subscription::key(subscription);
        let refused = self.store.get(Kind::RefusedPosts, &key).await?;
        if let Some(refused) = refused.filter(|record| scope.includes(&record.place)) {
            let posts: RefusedPosts = refused.read()?;
            letters.extend(posts.letters(subscription, &refused.place));
        }
        let mut letters: Vec<((Timestamp, String), InboundDelivery)> = letters
            .into_iter()
            .filter_map(|letter| match letter.state {
                InboundState::Dead { at, .. } => Some(((at, letter.id.clone()), letter)),
                InboundState::Waiting { .. } | InboundState::Delivered { .. } => None,
            })
            .filter(|(place, _)| place.0 >= since && after.as_ref().is_none_or(|it| place < it))
            .collect();
        letters.sort_by(|(one, _), (other, _)| other.cmp(one));
        letters.truncate(limit);
        Ok(letters.into_iter().map(|(_, letter)| letter).collect())
    }

    async fn waiting(&self, subscription: &str) -> Result<Vec<InboundDelivery>, StoreError> {
        let query = RecordQuery::all(Kind::InboundDelivery, Within::Everywhere);
        let found = self.store.scan(&query.with(WAITING, subscription)).await?;
        found.iter().map(InboundDelivery::read).collect()
    }

    pub(super) async fn commit(
        &self,
        records: Vec<RecordChange>,
        run: Option<NewRun>,
    ) -> Result<(), StoreError> {
        let births = Vec::from_iter(run);
        self.store.commit(Batch { births, records, ..Batch::default() }).await
    }
}

/// What is done with a due delivery other than trying it again; none where it is tried.
fn put_in_order(
    delivery: &InboundDelivery,
    of: Option<&Subscription>,
    at: Timestamp,
) -> Result<Option<Vec<RecordChange>>, StoreError> {
    let gone = || {
        let key = InboundDelivery::key(&delivery.subscription, &delivery.dedup_key);
        let standing = Expected::Version(delivery.version);
        vec![RecordChange::delete(Kind::InboundDelivery, key).expecting(standing)]
    };
    let (InboundState::Waiting { .. }, Some(of)) = (&delivery.state, of) else {
        return Ok(Some(gone()));
    };
    Ok(match of.state {
        SubscriptionState::Active => None,
        // It came while the others that waited were given up.
        SubscriptionState::DeadLettered => {
            let state = InboundState::Dead { reason: DeadReason::RetriesExhausted, at };
            let dead = InboundDelivery { state, ..delivery.clone() };
            Some(replacing(&dead, delivery.version)?)
        }
        SubscriptionState::Paused | SubscriptionState::Failed => {
            let aside = delivery.put_alone()?.due(None);
            let aside = aside.expecting(Expected::Version(delivery.version));
            Some(vec![stands(of), aside])
        }
    })
}

/// What refuses a batch once a subscription has moved on.
fn stands(subscription: &Subscription) -> RecordChange {
    let key = Subscription::key(&subscription.id);
    RecordChange::check(Kind::Subscription, key, Expected::Version(subscription.version))
}

/// Writes a delivery, unless the same thing came before.
fn new(delivery: &InboundDelivery) -> Result<Vec<RecordChange>, StoreError> {
    Ok(only_if(delivery.put()?, Expected::Absent))
}

/// Writes a delivery over one that still has this version.
fn replacing(delivery: &InboundDelivery, version: u64) -> Result<Vec<RecordChange>, StoreError> {
    Ok(only_if(delivery.put()?, Expected::Version(version)))
}

/// The delivery itself comes first in what is written of it.
fn only_if(mut changes: Vec<RecordChange>, expected: Expected) -> Vec<RecordChange> {
    if let Some(delivery) = changes.first_mut() {
        delivery.expected = expected;
    }
    changes
}

/// What a member's queue of work is written with that takes a delivery: the queue itself, unless it is there. One that
/// takes nothing is [`StoreError::Moved`].
pub fn queue_changes(
    queue: &Subscription,
    standing: Option<&Record>,
    delivery: &InboundDelivery,
) -> Result<Vec<RecordChange>, StoreError> {
    let over = match standing.map(Subscription::read).transpose()? {
        Some(standing) if standing.is_active() => stands(&standing),
        Some(_) => return Err(moved(&queue.id)),
        None => queue.put(SigningSecrets::default())?.expecting(Expected::Absent),
    };
    let mut changes = vec![over];
    changes.extend(new(delivery)?);
    Ok(changes)
}

fn moved(id: &str) -> StoreError {
    StoreError::Moved { what: id.to_owned() }
}
