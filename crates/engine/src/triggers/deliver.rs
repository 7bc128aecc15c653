//! Deliveries: something comes in, is believed or not, and becomes a run once.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use callboard_core::{Birth, Delivered};
use callboard_protocol::{
    Object, RunId, StateReason, SubscriptionState, Timestamp, TriggerEvent, TriggerSource, hex,
};

use super::attachments::Attachment;
use super::audit;
use super::delivery::{DeadReason, InboundDelivery, InboundState};
use super::filter;
use super::ingest::{TriggerError, TriggerIngest};
use super::proof::{Post, verify};
use super::records::Keeping;
use super::signature::{SignatureError, is_id};
use super::subscription::{Subscription, Verification};
use crate::engine::{EngineError, PreparedRun};
use crate::fire::Fire;
use crate::order::{Order, Target};
use crate::store::{NewRun, StoreError};

/// Refused posts that are kept for each subscription: enough to see what happens, no more than strangers may fill.
const MOST_REFUSED: usize = 100;

/// A thing that came in.
#[derive(Debug)]
pub struct Incoming {
    /// A name that nobody has used.
    pub id: String,
    /// The sender's own name for it; the same name is the same thing.
    pub event_id: Option<String>,
    /// Without its delivery id.
    pub event: TriggerEvent,
    /// What came along.
    pub files: Vec<Attachment>,
}

/// What a delivery came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    Started(RunId),
    /// The same thing came before; it became this run.
    Duplicate(RunId),
    /// It cannot be a run yet and is tried again.
    Waiting,
    /// It cannot be a run and was given up.
    GivenUp,
    /// The subscription's filter does not want it.
    Filtered,
    /// The workflow does not take it, for a reason that another try would meet again: it is a dead letter at once,
    /// and the subscription goes on.
    Unfit(String),
}

/// What an attempt came to, short of the machine misbehaving.
pub(super) enum Attempted {
    Run(Box<PreparedRun>),
    /// The reason, in words that hold nothing of the content.
    NotYet(String),
    /// The workflow's inputs are not to be had from it. The reason is of the same kind.
    Unfit(String),
    /// The key or member that answers for it takes nothing now.
    Paused(&'static str),
    /// The subscription names a member that is gone.
    Gone,
}

impl TriggerIngest {
    /// The subscription that takes posts under this id. Nothing is believed yet.
    pub async fn door(&self, id: &str) -> Result<Subscription, TriggerError> {
        let opened = self.inner.triggers.open_subscription(id).await?;
        let (subscription, _) = opened.ok_or(TriggerError::Unknown)?;
        match subscription.source {
            TriggerSource::Webhook | TriggerSource::Form | TriggerSource::Email => Ok(subscription),
            TriggerSource::Queue
            | TriggerSource::Schedule
            | TriggerSource::Heartbeat
            | TriggerSource::Manual => Err(TriggerError::Unknown),
        }
    }

    /// Checks who sent a post, before anything of it is looked at: whether it is signed, or why it is not believed. A
    /// refusal moves nothing: otherwise one bad post could kill a subscription.
    pub async fn authenticate(
        &self,
        id: &str,
        post: &Post<'_>,
    ) -> Result<(Subscription, Result<bool, SignatureError>), TriggerError> {
        let opened = self.inner.triggers.open_subscription(id).await?;
        let (subscription, secrets) = opened.ok_or(TriggerError::Unknown)?;
        let verdict = verify(&subscription.body.terms, post, &secrets, self.now());
        let believed = match (subscription.body.verification, verdict) {
            (Verification::None, _) => Ok(false),
            (Verification::Required | Verification::BestEffort, Ok(())) => Ok(true),
            (Verification::BestEffort, Err(_)) => Ok(false),
            (Verification::Required, Err(error)) => Err(error),
        };
        Ok((subscription, believed))
    }

    /// Keeps a refused post among the dead letters, without its content.
    pub async fn note_refused(
        &self,
        subscription: &Subscription,
        id: String,
    ) -> Result<(), StoreError> {
        metrics::counter!("callboard_trigger_refused_total").increment(1);
        self.inner.triggers.note_refused(subscription, id, self.now(), MOST_REFUSED).await
    }

    /// Makes a run of something that came in over an active subscription, or keeps it to try again.
    pub async fn deliver(
        &self,
        subscription: Subscription,
        incoming: Incoming,
    ) -> Result<Delivery, TriggerError> {
        let known = incoming.event_id.as_ref().filter(|_| subscription.body.dedup);
        let key = dedup_key(&subscription.id, known.unwrap_or(&incoming.id));
        self.deliver_under(subscription, incoming, key).await
    }

    /// The same under a key that this host has made: the sender's words must not be in it.
    pub async fn deliver_under(
        &self,
        subscription: Subscription,
        incoming: Incoming,
        dedup_key: String,
    ) -> Result<Delivery, TriggerError> {
        if subscription.state != SubscriptionState::Active {
            return Err(TriggerError::NotActive(subscription.state));
        }
        let now = self.now();
        let mut event = incoming.event;
        event.dedup_key = subscription.body.dedup.then(|| dedup_key.clone());
        let wanted = filter::wants(&subscription.body.terms, &event);
        if wanted == Ok(false) {
            self.note_filtered(&subscription, incoming.id).await?;
            return Ok(Delivery::Filtered);
        }
        let mut delivery = InboundDelivery::new(&subscription, incoming.id, dedup_key, &event, now);
        let attempted = match wanted {
            Ok(_) => self.attempt(&subscription, &delivery).await?,
            Err(why) => Attempted::Unfit(why),
        };
        delivery.files = incoming.files;
        match attempted {
            Attempted::Run(prepared) => {
                delivery.state =
                    InboundState::Delivered { run: prepared.run.id().clone(), at: now };
                // The run keeps what came in.
                delivery.event = None;
                let started = Delivery::Started(prepared.run.id().clone());
                self.keep(delivery, Some(*prepared), started).await
            }
            Attempted::Unfit(why) => {
                delivery.error = Some(why.clone());
                let prepared = self.bury(&subscription, &mut delivery, now)?;
                self.keep(delivery, Some(prepared), Delivery::Unfit(why)).await
            }
            Attempted::NotYet(why) => {
                delivery.error = Some(why);
                delivery.state = InboundState::Waiting { due_at: self.next_try(&subscription, 1) };
                let kept = self.keep(delivery, None, Delivery::Waiting).await?;
                self.inner.wake.notify_one();
                Ok(kept)
            }
            Attempted::Paused(why) => Err(TriggerError::Paused(why)),
            Attempted::Gone => {
                let (to, reason) = (SubscriptionState::Failed, StateReason::SourceRemoved);
                let failed = self.move_to(subscription, to, Some(reason)).await?;
                Err(TriggerError::NotActive(failed.state))
            }
        }
    }

    async fn keep(
        &self,
        delivery: InboundDelivery,
        prepared: Option<PreparedRun>,
        new: Delivery,
    ) -> Result<Delivery, TriggerError> {
        let triggers = self.inner.triggers.clone();
        let Some(prepared) = prepared else {
            return answer(triggers.keep_delivery(delivery, None).await?, new);
        };
        let (sender, kept) = tokio::sync::oneshot::channel();
        let write = move |record: Box<NewRun>| async move {
            let kept = triggers.keep_delivery(delivery, Some(*record)).await?;
            let is_new = kept == Keeping::New;
            // The caller may be gone; the run is not.
            let _gone = sender.send(kept);
            // Nothing was written, so there is nothing to drive either.
            let what = "the delivery".to_owned();
            if is_new { Ok(()) } else { Err(StoreError::Moved { what }) }
        };
        match self.inner.engine.persist_and_drive(prepared, None, write).await {
            Ok(_) | Err(StoreError::Moved { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = |_| StoreError::Unavailable("the host is stopping".into());
        answer(kept.await.map_err(gone)?, new)
    }

    /// Makes a dead letter of an delivery alone; answers the run that states it.
    pub(super) fn bury(
        &self,
        subscription: &Subscription,
        delivery: &mut InboundDelivery,
        now: Timestamp,
    ) -> Result<PreparedRun, TriggerError> {
        delivery.state = InboundState::Dead { reason: DeadReason::RetriesExhausted, at: now };
        metrics::counter!("callboard_trigger_dead_letters_total").increment(1);
        Ok(self.inner.engine.prepare_audit(audit::undeliverable(subscription, delivery), now)?)
    }

    /// Tries to make a run of an delivery; nothing is written yet.
    pub(super) async fn attempt(
        &self,
        subscription: &Subscription,
        delivery: &InboundDelivery,
    ) -> Result<Attempted, TriggerError> {
        let engine = &self.inner.engine;
        let event = delivery.event.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let Some(event): Option<Object> = event else {
            return Ok(Attempted::NotYet("nothing of it was kept".to_owned()));
        };
        let fire = engine.member_for_fire(
            &subscription.place,
            subscription.roster_id.as_ref(),
            &subscription.workflow,
            subscription.source,
            Some(subscription.id.clone()),
        );
        let acting = match fire.await? {
            Fire::For(acting) => Some(*acting),
            Fire::Unowned => None,
            Fire::NoSuchMember | Fire::NotInPortfolio => return Ok(Attempted::Gone),
            fire @ Fire::Paused => {
                return Ok(Attempted::Paused(fire.refusal().unwrap_or_default()));
            }
        };
        let order = Order { acting, ..order(subscription, &event) };
        let delivered = |birth: &mut Birth| {
            birth.delivery = Some(delivery.delivered(birth, event));
            birth.from_outside = true;
        };
        match engine.prepare(order, delivered).await {
            Ok(prepared) => Ok(Attempted::Run(Box::new(prepared))),
            Err(EngineError::Store(error)) => Err(error.into()),
            Err(EngineError::Inadmissible(error)) if error.path.starts_with("inputs.") => {
                Ok(Attempted::Unfit(error.to_string()))
            }
            Err(error) => Ok(Attempted::NotYet(error.to_string())),
        }
    }

    /// Starts a run of a dead letter, whatever became of its subscription: somebody has looked at it.
    pub async fn replay(
        &self,
        scope: &crate::store::Scope,
        subscription: &str,
        id: &str,
    ) -> Result<RunId, TriggerError> {
        let subscription = self.find(scope, subscription).await?;
        let found = self.inner.triggers.dead_letter(scope, &subscription.id, id).await?;
        let found = found.filter(|letter| letter.event.is_some());
        let mut delivery = found.ok_or(TriggerError::UnknownLetter)?;
        delivery.attempts += 1;
        let prepared = match self.attempt(&subscription, &delivery).await? {
            Attempted::Run(prepared) => *prepared,
            Attempted::NotYet(why) | Attempted::Unfit(why) => {
                return Err(TriggerError::NotYet(why));
            }
            Attempted::Paused(why) => return Err(TriggerError::Paused(why)),
            Attempted::Gone => return Err(TriggerError::NotActive(SubscriptionState::Failed)),
        };
        let run = prepared.run.id().clone();
        let (triggers, now) = (self.inner.triggers.clone(), self.now());
        let write = move |record: Box<NewRun>| async move {
            triggers.redeliver(&delivery, now, *record).await
        };
        self.inner.engine.persist_and_drive(prepared, None, write).await?;
        Ok(run)
    }

    /// Writes what became of an delivery, with a run that goes with it.
    pub(super) async fn settle(
        &self,
        delivery: InboundDelivery,
        expected: u64,
        prepared: Option<PreparedRun>,
    ) -> Result<(), StoreError> {
        let triggers = self.inner.triggers.clone();
        let Some(prepared) = prepared else {
            return triggers.settle_delivery(&delivery, expected, None).await;
        };
        let write = move |record: Box<NewRun>| async move {
            triggers.settle_delivery(&delivery, expected, Some(*record)).await
        };
        self.inner.engine.persist_and_drive(prepared, None, write).await.map(drop)
    }
}

/// What the caller gets to know of what was kept.
fn answer(kept: Keeping, new: Delivery) -> Result<Delivery, TriggerError> {
    match kept {
        Keeping::New => Ok(new),
        Keeping::NotActive(state) => Err(TriggerError::NotActive(state)),
        Keeping::Known(delivery) => Ok(match delivery.state {
            InboundState::Delivered { run, .. } => Delivery::Duplicate(run),
            InboundState::Waiting { .. } => Delivery::Waiting,
            InboundState::Dead { .. } => Delivery::GivenUp,
        }),
    }
}

impl InboundDelivery {
    /// Something that came in just now and was not tried yet.
    pub(crate) fn new(
        subscription: &Subscription,
        id: String,
        dedup_key: String,
        event: &TriggerEvent,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            subscription: subscription.id.clone(),
            place: subscription.place.clone(),
            dedup_key,
            attempts: 1,
            state: InboundState::Waiting { due_at: at },
            received_at: at,
            event: Some(serde_json::to_string(event).unwrap_or_default()),
            error: None,
            files: Vec::new(),
            version: 1,
        }
    }

    /// What the run that it becomes keeps of it. The delivery's name is that of its event.
    pub(crate) fn delivered(&self, birth: &Birth, mut event: Object) -> Delivered {
        event.insert("deliveryId".to_owned(), json!(birth.delivery_id()));
        Delivered {
            subscription_id: self.subscription.clone(),
            dedup_key: self.dedup_key.clone(),
            attempt: self.attempts,
            event,
            work_id: None,
        }
    }
}

/// Says nothing of what it stands for, and is the same for the same thing.
pub(crate) fn dedup_key(subscription: &str, id: &str) -> String {
    let mut hasher = Sha256::new();
    for field in ["trigger bridge", subscription, id] {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    let digest = hasher.finalize();
    let hex = hex(&digest[..16]);
    format!("dk_{hex}")
}

impl Incoming {
    /// Whether a sender's name for a thing can stand for it.
    pub fn is_event_id(id: &str) -> bool {
        is_id(id)
    }
}

fn order(subscription: &Subscription, event: &Object) -> Order {
    let inputs = subscription.body.mapping.iter().filter_map(|(name, from)| match from {
        Value::String(path) => find(event, path).map(|value| (name.clone(), value.clone())),
        value => Some((name.clone(), value.clone())),
    });
    let metadata = Object::from_iter([
        ("triggerSubscriptionId".to_owned(), json!(subscription.id)),
        ("triggerSource".to_owned(), json!(subscription.source)),
    ]);
    Order {
        inputs: inputs.collect(),
        metadata: Some(metadata),
        ..Order::new(
            Target::Workflow(subscription.workflow.clone()),
            subscription.owner(),
            subscription.place.mode,
        )
    }
}

/// Follows a dotted path such as `webhook.body.items.0.name`.
fn find<'a>(event: &'a Object, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.');
    let first = steps.next()?;
    let short = || filter::of_webhook(event, first);
    let first = event.get(first).or_else(short)?;
    steps.try_fold(first, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(step),
        _ => None,
    })
}
