//! Subscriptions: made, paused, resumed, given new secrets.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use callboard_protocol::{
    Object, Owner, RetryPolicy, RosterId, StateReason, SubscriptionState, Tenant, Timestamp,
    TriggerSource, WorkflowId,
};

use super::audit;
use super::delivery::{DEAD_LETTER_DAYS, DEAD_LETTERS_KEPT, InboundDelivery};
use super::preset::Terms;
use super::records::Triggers;
use super::subscription::{
    SigningSecret, SigningSecrets, Subscription, SubscriptionBody, Verification,
};
use crate::engine::{Engine, EngineError};
use crate::fire::Fire;
use crate::store::{KeyMode, NewRun, Scope, Store, StoreError};

/// How long senders may go on with the secret before the last one.
const OLD_SECRET_LASTS: Duration = Duration::from_secs(86_400);

/// Turns what comes in into runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TriggerIngest {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) triggers: Triggers,
    /// Says that there may be something to try again.
    pub(super) wake: Notify,
}

/// A subscription to be made.
#[derive(Debug, Clone)]
pub struct NewSubscription {
    /// A name that nobody can guess: for forms and mail it is all that a sender must know.
    pub id: String,
    pub owner: Owner,
    pub mode: KeyMode,
    pub source: TriggerSource,
    pub workflow: WorkflowId,
    pub roster_id: Option<RosterId>,
    pub dedup: bool,
    pub retry: RetryPolicy,
    pub verification: Verification,
    pub mapping: Object,
    pub terms: Terms,
    pub secret: Option<SigningSecret>,
}

/// Why nothing was made or changed.
#[derive(Debug, thiserror::Error)]
pub enum TriggerError {
    #[error("no workflow {0}")]
    UnknownWorkflow(WorkflowId),
    #[error("no such subscription")]
    Unknown,
    #[error("no such dead letter, or nothing of it was kept")]
    UnknownLetter,
    /// The member that it names is not on the caller's roster, or does not own the workflow.
    #[error("{0}")]
    NotTheirs(&'static str),
    /// The subscription takes nothing now.
    #[error("the subscription is {}", .0.as_str())]
    NotActive(SubscriptionState),
    /// The key or member that answers for the run takes none now.
    #[error("{0}")]
    Paused(&'static str),
    /// It still cannot be a run.
    #[error("{0}")]
    NotYet(String),
    /// A subscription that was given up stays so.
    #[error("the subscription was given up; make a new one")]
    GivenUp,
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TriggerIngest {
    /// How many days a dead letter is shown.
    pub const RETENTION_DAYS: u32 = DEAD_LETTER_DAYS;

    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        let triggers = Triggers::new(store);
        Self { inner: Arc::new(Inner { engine, triggers, wake: Notify::new() }) }
    }

    pub async fn register(&self, new: NewSubscription) -> Result<Subscription, TriggerError> {
        let engine = &self.inner.engine;
        let place = Scope::of_owner(&new.owner, new.mode);
        if engine.catalog().find(&place, &new.workflow).await?.is_none() {
            return Err(TriggerError::UnknownWorkflow(new.workflow));
        }
        if let Some(member) = &new.roster_id {
            let fire = engine.member_for_fire(
                &place,
                Some(member),
                &new.workflow,
                new.source,
                Some(new.id.clone()),
            );
            if let fire @ (Fire::NoSuchMember | Fire::NotInPortfolio) = fire.await? {
                return Err(TriggerError::NotTheirs(fire.refusal().unwrap_or_default()));
            }
        }
        let now = self.now();
        let fingerprint = new.secret.as_ref().and_then(|secret| secret.fingerprint(&new.id));
        let subscription = Subscription {
            id: new.id,
            place,
            source: new.source,
            workflow: new.workflow,
            roster_id: new.roster_id,
            state: SubscriptionState::Active,
            version: 1,
            body: SubscriptionBody {
                dedup: new.dedup,
                retry: new.retry,
                verification: new.verification,
                mapping: new.mapping,
                terms: new.terms,
                fingerprint,
                principal: new.owner.principal,
                created_at: now,
                updated_at: now,
            },
        };
        let secrets = SigningSecrets { current: new.secret, earlier: Vec::new() };
        self.inner.triggers.add_subscription(subscription.clone(), secrets).await?;
        Ok(subscription)
    }

    pub async fn list(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
        self.inner.triggers.subscriptions(scope).await
    }

    pub async fn find(&self, scope: &Scope, id: &str) -> Result<Subscription, TriggerError> {
        self.inner.triggers.subscription(scope, id).await?.ok_or(TriggerError::Unknown)
    }

    /// Removes a subscription with its dead letters; the runs that it started stay.
    pub async fn remove(&self, scope: &Scope, id: &str) -> Result<(), TriggerError> {
        let was_there = self.inner.triggers.remove_subscription(scope, id).await?;
        if was_there { Ok(()) } else { Err(TriggerError::Unknown) }
    }

    /// Whether a member's queue of work takes anything now. One that is not there yet does.
    pub async fn takes_work(&self, queue: &Subscription) -> Result<bool, StoreError> {
        let found = self.inner.triggers.subscription(&queue.place, &queue.id).await?;
        Ok(found.is_none_or(|found| found.is_active()))
    }

    /// Pauses or resumes. What a sender posts meanwhile is refused, not kept.
    pub async fn set_state(
        &self,
        scope: &Scope,
        id: &str,
        to: SubscriptionState,
    ) -> Result<Subscription, TriggerError> {
        let subscription = self.find(scope, id).await?;
        match subscription.state {
            SubscriptionState::DeadLettered => return Err(TriggerError::GivenUp),
            state if state == to => return Ok(subscription),
            _ => {}
        }
        let reason = (to == SubscriptionState::Paused).then_some(StateReason::OperatorPaused);
        let moved = self.move_to(subscription, to, reason).await?;
        self.inner.wake.notify_one();
        Ok(moved)
    }

    /// Fails every subscription that names a member who has left. One that is missed here, because the host stopped,
    /// fails at its next delivery.
    pub async fn member_left(
        &self,
        tenant: &Tenant,
        member: &RosterId,
    ) -> Result<(), TriggerError> {
        for mode in [KeyMode::Live, KeyMode::Test] {
            let everywhere = Scope { tenant: tenant.clone(), workspace: None, mode };
            for subscription in self.inner.triggers.subscriptions(&everywhere).await? {
                let is_open = matches!(
                    subscription.state,
                    SubscriptionState::Active | SubscriptionState::Paused
                );
                if is_open && subscription.roster_id.as_ref() == Some(member) {
                    let (to, reason) = (SubscriptionState::Failed, StateReason::SourceRemoved);
                    self.move_to(subscription, to, Some(reason)).await?;
                }
            }
        }
        Ok(())
    }

    /// Moves a subscription and states that, in one transaction.
    pub(super) async fn move_to(
        &self,
        mut subscription: Subscription,
        to: SubscriptionState,
        reason: Option<StateReason>,
    ) -> Result<Subscription, TriggerError> {
        let now = self.now();
        let audit = audit::moved(&subscription, to, reason);
        let prepared = self.inner.engine.prepare_audit(audit, now)?;
        let expected = subscription.version;
        subscription.state = to;
        subscription.version += 1;
        subscription.body.updated_at = now;
        let (triggers, changed) = (self.inner.triggers.clone(), subscription.clone());
        let write = move |record: Box<NewRun>| async move {
            triggers.change_subscription(changed, expected, None, Some(*record)).await
        };
        self.inner.engine.persist_and_drive(prepared, None, write).await?;
        Ok(subscription)
    }

    /// Gives a subscription a new secret; the last one works for another day. Safe to repeat: see [`SigningSecrets`].
    pub async fn rotate(
        &self,
        scope: &Scope,
        id: &str,
        secret: SigningSecret,
    ) -> Result<Subscription, TriggerError> {
        let mut subscription = self.find(scope, id).await?;
        let opened = self.inner.triggers.open_subscription(id).await?;
        let (_, secrets) = opened.ok_or(TriggerError::Unknown)?;
        let (now, expected) = (self.now(), subscription.version);
        subscription.body.fingerprint = secret.fingerprint(id);
        subscription.body.updated_at = now;
        subscription.version += 1;
        let secrets = secrets.rotated(secret, now, now.plus(OLD_SECRET_LASTS));
        let changed = subscription.clone();
        self.inner.triggers.change_subscription(changed, expected, Some(secrets), None).await?;
        Ok(subscription)
    }

    /// What was given up, newest first.
    pub async fn dead_letters(
        &self,
        scope: &Scope,
        id: &str,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<InboundDelivery>, TriggerError> {
        self.find(scope, id).await?;
        let since = before(self.now(), DEAD_LETTERS_KEPT);
        Ok(self.inner.triggers.dead_letters(scope, id, since, after, limit).await?)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.inner.engine.inner.clock.now()
    }
}

/// The time that lies so far back.
fn before(at: Timestamp, back: Duration) -> Timestamp {
    let back = i64::try_from(back.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(back))
}
