//! The delivery loop: takes registrations, and plans and sends until stopped.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use callboard_protocol::{Dialect, Tenant, Timestamp, WebhookId};

use super::callback::SignCallbacks;
use super::circuit::Circuit;
use super::delivery::DeadLetter;
use super::fate::{DEAD_LETTERS_KEPT, RetryPace, oldest_kept};
use super::filter::{EventFilter, UnknownPattern};
use super::plan::Audience;
use super::records::Webhooks;
use super::webhook::{Care, Secret, Webhook};
use crate::deliver::{Deliver, DeliverError};
use crate::engine::Engine;
use crate::logs::LogPosition;
use crate::store::{Scope, Store, StoreError};

/// The longest sleep between two looks. Hints come from this process only; others append too.
const LONGEST_SLEEP: Duration = Duration::from_secs(2);
/// Nobody waits for dead letters to be forgotten.
const FORGETS_EVERY: Duration = Duration::from_secs(60);

/// Brings events to those who subscribed to them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DeliveryLoop {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    webhooks: Webhooks,
    deliver: Arc<dyn Deliver>,
    signer: Arc<dyn SignCallbacks>,
    pace: RetryPace,
    /// Says that there may be something to do, other than a log that has grown.
    wake: Notify,
    /// Whether a log that grows is worth a look. Where nobody listens, runs must not pay for it.
    is_heard: AtomicBool,
    /// When to look for dead letters whose time is over.
    forgets_at: AtomicI64,
    sending: AtomicUsize,
}

/// A webhook to be registered.
#[derive(Debug, Clone)]
pub struct Registration {
    pub id: WebhookId,
    pub url: String,
    pub events: Vec<String>,
    pub tags: Vec<String>,
    pub care: Care,
    pub secret: Secret,
    pub dialect: Dialect,
}

/// Why there is no such webhook now.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error(transparent)]
    UnknownEvent(#[from] UnknownPattern),
    /// The host does not send to this address.
    #[error(transparent)]
    Refused(#[from] DeliverError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DeliveryLoop {
    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        deliver: Arc<dyn Deliver>,
        signer: Arc<dyn SignCallbacks>,
    ) -> Self {
        Self::paced(engine, store, (deliver, signer), RetryPace::default())
    }

    /// The same with other waits between attempts.
    pub fn paced(
        engine: Engine,
        store: Arc<dyn Store>,
        (deliver, signer): (Arc<dyn Deliver>, Arc<dyn SignCallbacks>),
        pace: RetryPace,
    ) -> Self {
        let inner = Inner {
            pace,
            engine,
            webhooks: Webhooks::new(store),
            deliver,
            signer,
            wake: Notify::new(),
            is_heard: AtomicBool::new(false),
            forgets_at: AtomicI64::new(0),
            sending: AtomicUsize::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Frees what another process held, for one that knows that it is the only one. To be called before [`Self::start`].
    pub async fn void_leases(&self) -> Result<(), StoreError> {
        self.inner.webhooks.void_leases().await
    }

    /// Begins to plan and send.
    pub fn start(&self) {
        self.spawn(self.clone().carry_until_stopped());
    }

    pub async fn register(
        &self,
        scope: Scope,
        registration: Registration,
    ) -> Result<(), RegistrationError> {
        let Registration { id, url, events, tags, care, secret, dialect } = registration;
        let events = EventFilter::read(events)?;
        self.inner.deliver.admit(&scope.tenant, &url).await?;
        let webhook = Webhook {
            id,
            scope,
            url,
            events,
            tags,
            care,
            fingerprint: secret.fingerprint(),
            created_at: self.now(),
            since: LogPosition::default(),
            circuit: Circuit::default(),
            dialect,
        };
        self.inner.webhooks.register_webhook(webhook, secret).await?;
        self.wake();
        Ok(())
    }

    /// Whether a run's questions may be brought to this address. A name that nobody knows now is looked up again when
    /// there is a question.
    pub async fn admit_callback(&self, tenant: &Tenant, url: &str) -> Result<(), DeliverError> {
        match self.inner.deliver.admit(tenant, url).await {
            Err(DeliverError::NoAnswer(_)) => Ok(()),
            admitted => admitted,
        }
    }

    pub async fn list(&self, scope: &Scope) -> Result<Vec<Webhook>, StoreError> {
        self.inner.webhooks.webhooks(scope).await
    }

    /// Answers whether there was one that the caller may see.
    pub async fn remove(&self, scope: &Scope, id: &WebhookId) -> Result<bool, StoreError> {
        self.inner.webhooks.remove_webhook(scope, id).await
    }

    /// The newest dead letters of a webhook; none if the caller has no such webhook.
    pub async fn dead_letters(
        &self,
        scope: &Scope,
        id: &WebhookId,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        self.letters_after(scope, id, None, limit).await
    }

    /// The same from behind one of them on, which is named by its time and id.
    pub async fn letters_after(
        &self,
        scope: &Scope,
        id: &WebhookId,
        after: Option<(Timestamp, u64)>,
        limit: usize,
    ) -> Result<Option<Vec<DeadLetter>>, StoreError> {
        let since = oldest_kept(self.now());
        self.inner.webhooks.dead_letters(scope, id, (since, after), limit).await
    }

    /// Plans what has happened and begins what is due; answers when to look again.
    pub async fn tick(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        if self.inner.forgets_at.load(Ordering::Relaxed) <= now.as_millis() {
            let is_full = self.inner.webhooks.forget_dead_letters(now).await?;
            let next = if is_full { now } else { now.plus(FORGETS_EVERY) };
            self.inner.forgets_at.store(next.as_millis(), Ordering::Relaxed);
        }
        let audience = self.plan_due(now).await?;
        self.inner.is_heard.store(audience == Audience::Somebody, Ordering::Relaxed);
        match audience {
            Audience::Nobody => Ok(None),
            Audience::Somebody => self.send_due(now).await,
        }
    }

    /// Sleeps and ticks until stopped. Holds no state worth testing.
    async fn carry_until_stopped(self) {
        let engine = &self.inner.engine.inner;
        loop {
            let now = self.now();
            let next = self.tick(now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "webhooks not delivered; trying again");
                None
            });
            let latest = now.plus(LONGEST_SLEEP);
            let until = next.map_or(latest, |next| next.min(latest));
            let is_heard = self.inner.is_heard.load(Ordering::Relaxed);
            // Losing any of these branches is fine: the next tick reads the truth.
            tokio::select! {
                () = engine.clock.sleep_until(until) => {}
                () = self.inner.wake.notified() => {}
                () = engine.appended.notified(), if is_heard => {}
                () = engine.asked.notified() => {}
                () = engine.stop.cancelled() => return,
            }
        }
    }

    /// How attempts at durable webhooks follow each other.
    pub fn pace(&self) -> RetryPace {
        self.inner.pace
    }

    /// How long a dead letter is kept.
    pub const LETTERS_KEPT: Duration = DEAD_LETTERS_KEPT;

    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.inner.webhooks
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(super) fn signer(&self) -> &dyn SignCallbacks {
        &*self.inner.signer
    }

    pub(super) fn deliver(&self) -> &dyn Deliver {
        &*self.inner.deliver
    }

    pub(super) fn sending(&self) -> &AtomicUsize {
        &self.inner.sending
    }

    pub(super) fn wake(&self) {
        self.inner.wake.notify_one();
    }

    pub(super) fn now(&self) -> Timestamp {
        self.inner.engine.inner.clock.now()
    }

    pub(super) fn counted(&self) -> Timestamp {
        self.inner.engine.inner.clock.counted()
    }

    pub(super) async fn sleep_until(&self, at: Timestamp) {
        self.inner.engine.inner.clock.sleep_until(at).await;
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.engine.inner.tasks.spawn(task);
    }
}
