//! The loop that looks at due schedules.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use callboard_core::HORIZON;
use callboard_protocol::Timestamp;

use super::declared::HostOwner;
use super::stored::Schedules;
use super::turn::before_set_back;
use crate::engine::{Engine, EngineError};
use crate::pace::Pace;
use crate::store::{Store, StoreError};

/// Schedules read at once: enough to fill commits, few enough to hold in memory with their inputs.
const BATCH: usize = 256;
/// Slots on their way to the disk at once. They share commits; more would only wait in the store's queue.
const AT_ONCE: usize = 64;
/// The longest sleep between two looks. Hints come from this process only; other hosts make schedules too.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// A look that comes later than this after the last one finds a machine that slept, or was hopelessly busy: what was due
/// meanwhile is caught up with once instead of slot by slot.
const LOST_TOUCH: Duration = Duration::from_secs(10);
/// More schedules than a host can have.
const EVERY: usize = u32::MAX as usize;

/// Starts runs when schedules say so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Scheduler {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) schedules: Schedules,
    /// Says that there may be something to do.
    wake: Notify,
    attention: Mutex<Option<Attention>>,
    /// Whose runs those of loaded definitions are that nobody owns.
    pub(super) host: OnceLock<HostOwner>,
}

/// Since when this process has looked without a pause.
#[derive(Debug, Clone, Copy)]
struct Attention {
    since: Timestamp,
    last: Timestamp,
}

/// The outcome of one look at a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// It has moved on, here or elsewhere.
    Moved,
    /// It is as it was.
    Stuck,
    /// The store took nothing, from this schedule or any other.
    Refused,
}

impl Scheduler {
    /// Runs on the engine's clock and tasks, and stops with it.
    pub fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        let schedules = Schedules::new(store);
        let (wake, attention, host) = (Notify::new(), Mutex::default(), OnceLock::new());
        Self { inner: Arc::new(Inner { engine, schedules, wake, attention, host }) }
    }

    pub fn start(&self) {
        let this = self.clone();
        self.inner.engine.inner.tasks.spawn(async move {
            let inner = &this.inner;
            let pace = Pace { what: "schedules", wake: &inner.wake, longest_sleep: LONGEST_SLEEP };
            // People mean the time on the wall, whatever time this process has kept.
            let tick = async |now: Timestamp| {
                let wall = inner.engine.clock().wall();
                let next = this.tick(wall).await?;
                Ok(next.map(|next| now.plus(next.since(wall))))
            };
            inner.engine.tick_until_stopped(pace, tick).await;
        });
    }

    /// Says that a schedule was made or changed.
    pub fn wake(&self) {
        self.inner.wake.notify_one();
    }

    /// Fires every slot that is due; answers when the next one is.
    pub async fn tick(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let (awake_since, may_be_set_back) = self.pay_attention(now);
        if may_be_set_back {
            self.find_slots_again(now).await?;
        }
        loop {
            let due = self.inner.schedules.due_schedules(now, BATCH).await?;
            if due.schedules.is_empty() {
                return Ok(due.next);
            }
            let looks = due.schedules.into_iter().map(|schedule| {
                // On the heap: sixty-four of them wait at once.
                Box::pin(self.look_at(schedule, now, awake_since))
            });
            let looked: Vec<Looked> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
            if looked.contains(&Looked::Refused) {
                self.lose_touch();
            }
            // What cannot move would come back at once, and again.
            if !looked.contains(&Looked::Moved) {
                return Ok(None);
            }
        }
    }

    /// Slots that come due while nothing can be written are as good as missed: without this, each of them would fire
    /// as soon as there is room.
    fn lose_touch(&self) {
        *self.inner.attention.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Slots computed before the clock was put back lie too far ahead: the schedule would be silent until then.
    async fn find_slots_again(&self, now: Timestamp) -> Result<(), StoreError> {
        let all = self.inner.schedules.due_schedules(now.plus(HORIZON * 2), EVERY).await?;
        for mut schedule in all.schedules {
            let Some(next) = before_set_back(&schedule, now) else { continue };
            tracing::warn!(schedule = %schedule.id, %next, "the clock was put back; the next slot is found again");
            schedule.state.next_slot = Some(next);
            match self.keep(schedule, now).await {
                // Another host was faster, and that is as good.
                Ok(_) | Err(EngineError::Store(StoreError::Moved { .. })) => {}
                Err(EngineError::Store(error)) => return Err(error),
                Err(error) => tracing::warn!(%error, "schedule not set back"),
            }
        }
        Ok(())
    }

    /// Since when this process has looked without a pause, and whether the clock may have been put back since the last
    /// look. At the first nobody knows.
    fn pay_attention(&self, now: Timestamp) -> (Timestamp, bool) {
        // Two times are read and written whole; a panic elsewhere cannot leave them half-changed.
        let mut attention = self.inner.attention.lock().unwrap_or_else(PoisonError::into_inner);
        let may_be_set_back = attention.is_none_or(|before| before.last > now.plus(LOST_TOUCH));
        let since = match *attention {
            Some(before) if now.since(before.last) <= LOST_TOUCH => before.since.min(now),
            Some(_) | None => now,
        };
        *attention = Some(Attention { since, last: now });
        (since, may_be_set_back)
    }
}
