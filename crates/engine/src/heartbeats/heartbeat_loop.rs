//! The loop that looks at what heartbeats name, with what follows from a look.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::{Notify, broadcast};

use callboard_protocol::{
    HeartbeatEvaluated, HeartbeatSkip, HeartbeatStateChanged, HeartbeatStatus, Object, RunId,
    Timestamp, TriggerSource,
};

use super::heartbeat::{Evaluation, Heartbeat, Observe, ObserveError};
use super::notices::{HeartbeatNotice, MOST_UNREAD};
use super::stored::Heartbeats;
use crate::engine::{Engine, EngineError, PreparedRun};
use crate::fire::Fire;
use crate::order::{Order, Target};
use crate::pace::Pace;
use crate::store::{NewRun, Store, StoreError};

/// Nothing is looked at more often.
pub const MIN_INTERVAL: Duration = Duration::from_secs(10);
/// A look that takes longer is given up. Shorter than the least interval, so that no look meets the one before.
pub const MAX_RUNTIME: Duration = Duration::from_secs(5);
/// A state is a token to compare, not a place to keep things.
const MOST_STATE_BYTES: usize = 4096;
/// Heartbeats read at once.
const BATCH: usize = 64;
/// Looks under way at once: they wait for others, not for this machine.
const AT_ONCE: usize = 16;
/// The longest sleep between two looks at the table. Other hosts make heartbeats too.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Looks when heartbeats say so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HeartbeatLoop {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) heartbeats: Heartbeats,
    eyes: Arc<dyn Observe>,
    wake: Notify,
    pub(super) notices: broadcast::Sender<HeartbeatNotice>,
}

/// What one look came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Beat {
    pub evaluated: HeartbeatEvaluated,
    /// Only where something changed.
    pub changed: Option<HeartbeatStateChanged>,
    pub run: Option<RunId>,
}

impl HeartbeatLoop {
    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(engine: Engine, store: Arc<dyn Store>, eyes: Arc<dyn Observe>) -> Self {
        let heartbeats = Heartbeats::new(store);
        let (wake, notices) = (Notify::new(), broadcast::Sender::new(MOST_UNREAD));
        Self { inner: Arc::new(Inner { engine, heartbeats, eyes, wake, notices }) }
    }

    pub fn start(&self) {
        let this = self.clone();
        self.inner.engine.inner.tasks.spawn(async move {
            let inner = &this.inner;
            let pace = Pace { what: "heartbeats", wake: &inner.wake, longest_sleep: LONGEST_SLEEP };
            inner.engine.tick_until_stopped(pace, |now| this.tick(now)).await;
        });
    }

    /// Says that a heartbeat was made or changed.
    pub fn wake(&self) {
        self.inner.wake.notify_one();
    }

    /// Looks at everything that is due; answers when the next one is.
    pub async fn tick(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let due = self.inner.heartbeats.due_heartbeats(now, BATCH).await?;
        let looks = due.heartbeats.into_iter().map(|heartbeat| {
            Box::pin(async move {
                let id = heartbeat.id.clone();
                match self.look_at(heartbeat, now).await {
                    // Another host was faster, and that is as good.
                    Ok(()) | Err(EngineError::Store(StoreError::Moved { .. })) => {}
                    Err(error) => {
                        tracing::warn!(%error, heartbeat = %id, "not looked at; trying later");
                    }
                }
            })
        });
        stream::iter(looks).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
        Ok(due.next)
    }

    async fn look_at(&self, mut heartbeat: Heartbeat, now: Timestamp) -> Result<(), EngineError> {
        heartbeat.wake_at = Some(now.plus(Duration::from_secs(heartbeat.state.interval_sec)));
        self.inner.heartbeats.advance_heartbeat(heartbeat.clone(), None).await?;
        heartbeat.version += 1;
        if self.is_busy(&heartbeat).await? {
            self.notify_skipped(&heartbeat.place, &heartbeat.id, HeartbeatSkip::RunUnderWay);
            return Ok(());
        }
        let eyes = Arc::clone(&self.inner.eyes);
        let (probe, tenant) = (heartbeat.state.probe.clone(), heartbeat.place.tenant.clone());
        self.beat(heartbeat, async move { eyes.observe(&tenant, &probe).await }).await.map(drop)
    }

    /// Whether the run of the last change is still under way: one is enough.
    async fn is_busy(&self, heartbeat: &Heartbeat) -> Result<bool, StoreError> {
        let Some(run) = &heartbeat.state.last_run else { return Ok(false) };
        let found = self.inner.engine.inner.store.find(&heartbeat.place, run).await?;
        Ok(found.is_some_and(|found| !found.status.is_terminal()))
    }

    /// One look: bounded in time, compared with the one before, and acted upon where it differs.
    pub async fn beat(
        &self,
        mut heartbeat: Heartbeat,
        look: impl Future<Output = Result<Object, ObserveError>> + Send,
    ) -> Result<Beat, EngineError> {
        let clock = self.inner.engine.clock();
        let seen = tokio::select! {
            biased;
            seen = look => Some(seen.and_then(small)),
            () = clock.sleep_until(clock.now().plus(MAX_RUNTIME)) => None,
        };
        let (status, to) = match seen {
            Some(Ok(to)) => (HeartbeatStatus::Ok, Some(to)),
            Some(Err(error)) => {
                tracing::debug!(%error, heartbeat = %heartbeat.id, "nothing seen");
                (HeartbeatStatus::Error, None)
            }
            None => (HeartbeatStatus::Timeout, None),
        };
        let before = heartbeat.state.observed.clone();
        let changed = before.zip(to.clone()).filter(|(from, to)| from != to).map(|(from, to)| {
            HeartbeatStateChanged { heartbeat_id: heartbeat.id.clone(), from, to }
        });
        let at = clock.now();
        let is_changed = changed.is_some();
        heartbeat.state.observed = to.or(heartbeat.state.observed);
        heartbeat.state.last = Some(Evaluation { at, status, changed: is_changed });
        heartbeat.state.changed_at = is_changed.then_some(at).or(heartbeat.state.changed_at);
        let evaluated =
            HeartbeatEvaluated { heartbeat_id: heartbeat.id.clone(), status, changed: is_changed };
        if is_changed {
            // Before the change is kept: after a crash in between it is seen again, and what is due stays due.
            let memory = &self.inner.engine.inner.memory;
            memory.commitments_come_due(&heartbeat.place, &heartbeat.id, at).await?;
        }
        let asked = match is_changed {
            true => Some(self.run_of(&heartbeat).await?),
            false => None,
        };
        let skipped = asked.as_ref().and_then(|asked| asked.as_ref().err().copied());
        let place = heartbeat.place.clone();
        let run = self.keep(heartbeat, asked.and_then(Result::ok)).await?;
        tracing::info!(target: "heartbeat", heartbeat = %evaluated.heartbeat_id, ?status, is_changed, "evaluated");
        let beat = Beat { evaluated, changed, run };
        self.notify_of(&place, &beat, skipped);
        Ok(beat)
    }

    /// The run that a change asks for, or why there is none.
    async fn run_of(
        &self,
        heartbeat: &Heartbeat,
    ) -> Result<Result<PreparedRun, HeartbeatSkip>, EngineError> {
        let engine = &self.inner.engine;
        let (place, member) = (&heartbeat.place, heartbeat.roster_id.as_ref());
        let (workflow, source) = (&heartbeat.workflow, TriggerSource::Heartbeat);
        let fire = engine.member_for_fire(place, member, workflow, source, None).await?;
        if let Some(why) = fire.refusal() {
            tracing::info!(heartbeat = %heartbeat.id, why, "change not acted upon");
        }
        let acting = match fire {
            Fire::For(acting) => Some(*acting),
            Fire::Unowned => None,
            Fire::Paused => return Ok(Err(HeartbeatSkip::MemberPaused)),
            Fire::NoSuchMember | Fire::NotInPortfolio => {
                return Ok(Err(HeartbeatSkip::NotStartable));
            }
        };
        let said = [("heartbeatId".to_owned(), json!(heartbeat.id))];
        let order = Order {
            acting,
            metadata: Some(Object::from_iter(said)),
            ..Order::new(
                Target::Workflow(workflow.clone()),
                heartbeat.owner(),
                heartbeat.place.mode,
            )
        };
        match engine.prepare(order, |_| {}).await {
            Ok(prepared) => Ok(Ok(prepared)),
            Err(error @ EngineError::Store(_)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, heartbeat = %heartbeat.id, "run of a change not started");
                Ok(Err(HeartbeatSkip::NotStartable))
            }
        }
    }

    async fn keep(
        &self,
        mut heartbeat: Heartbeat,
        prepared: Option<PreparedRun>,
    ) -> Result<Option<RunId>, EngineError> {
        let heartbeats = self.inner.heartbeats.clone();
        let Some(prepared) = prepared else {
            heartbeats.advance_heartbeat(heartbeat, None).await?;
            return Ok(None);
        };
        heartbeat.state.last_run = Some(prepared.run.id().clone());
        let write = move |record: Box<NewRun>| async move {
            heartbeats.advance_heartbeat(heartbeat, Some(*record)).await
        };
        Ok(Some(self.inner.engine.persist_and_drive(prepared, None, write).await?.run))
    }
}

fn small(state: Object) -> Result<Object, ObserveError> {
    let bytes = json!(state).to_string().len();
    match bytes <= MOST_STATE_BYTES {
        true => Ok(state),
        false => Err(ObserveError(format!("a state of {bytes} bytes is none"))),
    }
}
