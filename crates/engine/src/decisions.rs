//! The threads on which runs are folded and decided, apart from those that serve requests.
//!
//! A thread cannot be stopped. Work that outlives its limit is therefore left alone: its caller stops
//! waiting, the thread counts as lost until it ends after all, and another takes its place, up to a bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Threads of one lane that work at once. More than processors would only wait for each other.
const THREADS: usize = 4;
/// Lost threads of one lane. Each takes its share of a processor until the host is started anew, and so many leave
/// room for the others; past it the lane takes nothing more.
const MOST_LOST: usize = 8;

/// How long one decision may take where nobody says otherwise: a thousand times as long as long ones take.
pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_secs(10);

/// Whose work it is. Each lane has threads of its own, so that none can keep another waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The holders of runs.
    Drive,
    /// Reads, and definitions that are sent in.
    Read,
    /// Cancelling, pausing, answering.
    Control,
}

/// Why nothing was decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    #[error("deciding what comes next took longer than {} ms", limit.as_millis())]
    Overran { limit: Duration },
    #[error("deciding what comes next broke the host's own code: {0}")]
    Broke(String),
    /// What was stored of the run's workflow is refused today.
    #[error("its definition cannot be used any more: {0}")]
    Unusable(String),
    /// Its log holds an event which this build cannot read; another may be able to.
    #[error("{0}; it waits for a build that can read it")]
    Unreadable(callboard_core::Unreadable),
    /// It was not tried.
    #[error(
        "too many decisions have outlived their limit, and no thread is left for another; start the host anew"
    )]
    NoThreads,
}

#[derive(Debug, Clone)]
pub(crate) struct Decisions {
    lanes: Arc<[Threads; 3]>,
    limit: Duration,
}

impl Default for Decisions {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

#[derive(Debug)]
struct Threads {
    free: Arc<Semaphore>,
    lost: AtomicUsize,
}

impl Default for Threads {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(THREADS)), lost: AtomicUsize::new(0) }
    }
}

impl Threads {
    fn refuse_if_spent(&self) -> Result<(), Undecided> {
        let is_spent = self.lost.load(Ordering::Relaxed) >= MOST_LOST;
        if is_spent { Err(Undecided::NoThreads) } else { Ok(()) }
    }
}

/// The state of a piece of work: the first to change it, the thread or its watch, decides.
const UNDER_WAY: u8 = 0;
const ENDED: u8 = 1;
const LOST: u8 = 2;

impl Decisions {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { lanes: Arc::default(), limit }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Does on the spot what is known to be short.
    pub(crate) fn at_once<T>(work: impl FnOnce() -> T) -> Result<T, Undecided> {
        // A caller that gets an error back drops what the work was given.
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Undecided::Broke(said(&*panic)))
    }

    /// Does work on a thread of the lane, for no longer than the limit.
    pub(crate) async fn make<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Undecided> {
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends by itself, and must outlive a caller who hangs up: no thread goes unwatched"
        )]
        let watched = tokio::spawn(self.clone().watch(lane, work));
        watched.await.unwrap_or_else(|error| Err(Undecided::Broke(error.to_string())))
    }

    async fn watch<T: Send + 'static>(
        self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Undecided> {
        let threads = &self.lanes[lane as usize];
        threads.refuse_if_spent()?;
        let free = Arc::clone(&threads.free).acquire_owned().await;
        let free = free.map_err(|_| Undecided::NoThreads)?;
        threads.refuse_if_spent()?;
        let state = Arc::new(AtomicU8::new(UNDER_WAY));
        let (lanes, ends) = (Arc::clone(&self.lanes), Arc::clone(&state));
        let mut thread = tokio::task::spawn_blocking(move || {
            let done = Self::at_once(work);
            if ends.swap(ENDED, Ordering::AcqRel) == LOST {
                // Somebody else has its place already.
                free.forget();
                lanes[lane as usize].lost.fetch_sub(1, Ordering::Relaxed);
            }
            done
        });
        match tokio::time::timeout(self.limit, &mut thread).await {
            Ok(joined) => return joined.unwrap_or_else(|error| Err(broke(&error))),
            // It ended at the last moment.
            Err(_)
                if state
                    .compare_exchange(UNDER_WAY, LOST, Ordering::AcqRel, Ordering::Acquire)
                    .is_err() =>
            {
                return thread.await.unwrap_or_else(|error| Err(broke(&error)));
            }
            Err(_) => {}
        }
        let lost = threads.lost.fetch_add(1, Ordering::Relaxed) + 1;
        threads.free.add_permits(1);
        tracing::error!(?lane, lost, of = MOST_LOST, limit = ?self.limit, "a decision outlived its limit; its thread is lost until it ends or the host is started anew");
        Err(Undecided::Overran { limit: self.limit })
    }
}

fn broke(error: &tokio::task::JoinError) -> Undecided {
    Undecided::Broke(error.to_string())
}

/// What a panic said, where it said anything.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked".to_owned())
}
