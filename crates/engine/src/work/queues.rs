//! The loop that begins items of work that had to wait.
//!
//! An item waits because its member was paused, or its queue, when it was put there. That it may begin is not sent by
//! the caller that resumes them but read from their state, so no crash and no second host can lose or repeat it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use callboard_protocol::{Timestamp, TriggerSource, WorkItem};

use super::{StoredWork, Waits, Work, WorkChange, WorkMove};
use crate::engine::{Engine, EngineError};
use crate::fire::Fire;
use crate::order::{Order, Target};
use crate::pace::Pace;
use crate::store::{Scope, StoreError};
use crate::triggers::Subscription;

/// Items read at once.
const BATCH: usize = 64;
/// The longest sleep between two looks. Hints come from this process only; members are resumed on other hosts too.
const LONGEST_SLEEP: Duration = Duration::from_secs(2);

/// Members' queues of work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Queues {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Engine,
    work: Work,
    /// Says that a member or queue may have been resumed.
    wake: Notify,
}

impl Queues {
    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(engine: Engine) -> Self {
        let work = Work::new(Arc::clone(&engine.inner.store));
        Self { inner: Arc::new(Inner { engine, work, wake: Notify::new() }) }
    }

    pub fn start(&self) {
        let this = self.clone();
        self.inner.engine.inner.tasks.spawn(async move {
            let inner = &this.inner;
            let pace = Pace { what: "work", wake: &inner.wake, longest_sleep: LONGEST_SLEEP };
            inner.engine.tick_until_stopped(pace, |now| this.tick(now)).await;
        });
    }

    /// Says that a member or a queue was resumed.
    pub fn wake(&self) {
        self.inner.wake.notify_one();
    }

    pub fn work(&self) -> &Work {
        &self.inner.work
    }

    /// Begins what waits and need not; answers when to look again.
    pub async fn tick(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let startable = self.inner.work.startable_work(BATCH).await?;
        let is_full = startable.len() == BATCH;
        let mut has_moved = false;
        for (work, waits) in startable {
            let id = work.item.work_id.clone();
            match Box::pin(self.begin(work, waits, now)).await {
                // Another host was faster, and that is as good.
                Ok(()) | Err(EngineError::Store(StoreError::Moved { .. })) => has_moved = true,
                Err(error) => {
                    tracing::warn!(%error, work = id, "work not begun; trying later");
                }
            }
        }
        // What cannot move would come back at once, and again.
        Ok((is_full && has_moved).then_some(now))
    }

    /// Begins an item, or leaves it to a person with what keeps it from beginning.
    async fn begin(
        &self,
        work: StoredWork,
        waits: Waits,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let why = match self.fire(&work, &waits, now).await {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => why.to_owned(),
            Err(error @ EngineError::Store(_)) => return Err(error),
            // Trying again would come to the same.
            Err(error) => error.to_string(),
        };
        let StoredWork { item, version } = work;
        let item = WorkItem { reason: Some(why), updated_at: now, ..item };
        let scope = Scope::of_owner(&waits.owner, waits.mode);
        let change = WorkChange { scope, item, expected: version, waits: None };
        Ok(self.inner.work.put_work(change, None).await?)
    }

    /// Starts the run of an item; answers what stands in its way for good.
    async fn fire(
        &self,
        work: &StoredWork,
        waits: &Waits,
        now: Timestamp,
    ) -> Result<Option<&'static str>, EngineError> {
        let engine = &self.inner.engine;
        let (Waits { owner, mode }, item) = (waits, &work.item);
        let (member, workflow) = (&item.roster_id, &item.workflow_id);
        let over = Subscription::work_queue_id(&owner.tenant, member, *mode);
        let source = TriggerSource::Queue;
        let scope = Scope::of_owner(owner, *mode);
        let fire = engine.member_for_fire(&scope, Some(member), workflow, source, Some(over));
        let acting = match fire.await? {
            Fire::For(acting) => *acting,
            // Since it was read; it goes on waiting.
            Fire::Paused => return Ok(None),
            refused @ (Fire::Unowned | Fire::NoSuchMember | Fire::NotInPortfolio) => {
                return Ok(refused.refusal().or(Some("nobody owns the workflow")));
            }
        };
        let queue = Subscription::work_queue(&acting.member, *mode, workflow.clone(), now);
        let item = WorkItem { updated_at: now, ..item.clone() };
        let order = Order {
            inputs: item.inputs.clone(),
            acting: Some(acting),
            ..Order::new(Target::Workflow(workflow.clone()), owner.clone(), *mode)
        };
        let change = WorkChange { scope, item, expected: work.version, waits: None };
        engine.fire_work(WorkMove::new(change, queue), order, None).await?;
        Ok(None)
    }
}
