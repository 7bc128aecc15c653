//! Time and fresh names, as arguments: the only door through which either enters.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use callboard_protocol::{RunId, Timestamp};

/// What time it is, and waiting for another.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time of this process. It never goes back, so that what was to happen in a minute does.
    fn now(&self) -> Timestamp;

    /// Returns once the clock shows `at` or later.
    async fn sleep_until(&self, at: Timestamp);

    /// Time that only goes on, whatever is done to the clock on the wall: never later than `now`. Leases go by it, so that
    /// no clock makes a host take its own runs from itself.
    fn counted(&self) -> Timestamp {
        self.now()
    }

    /// The time on the wall, which people may put forward and back.
    fn wall(&self) -> Timestamp {
        self.now()
    }
}

/// Makes time that never goes back of a wall clock and of one that only counts: it follows where the wall clock is put
/// forward, and goes on at its own pace where that one is put back.
#[derive(Debug)]
pub struct Steady {
    /// How far the wall clock has been ahead of the count at most, in milliseconds.
    lead: AtomicI64,
    is_behind: AtomicBool,
}

impl Default for Steady {
    fn default() -> Self {
        Self::new()
    }
}

impl Steady {
    pub const fn new() -> Self {
        Self { lead: AtomicI64::new(i64::MIN), is_behind: AtomicBool::new(false) }
    }

    pub fn read(&self, wall: Timestamp, counted: Duration) -> Timestamp {
        let counted = i64::try_from(counted.as_millis()).unwrap_or(i64::MAX);
        let lead = wall.as_millis().saturating_sub(counted);
        let most = self.lead.fetch_max(lead, Ordering::Relaxed).max(lead);
        let is_behind = most - lead > SET_BACK_MS;
        if is_behind != self.is_behind.load(Ordering::Relaxed)
            && is_behind != self.is_behind.swap(is_behind, Ordering::Relaxed)
            && is_behind
        {
            tracing::warn!(
                by_ms = most - lead,
                "the machine's clock was put back; runs go on by the old time until it has caught up or the host is started anew"
            );
        }
        Timestamp::from_millis(counted.saturating_add(most))
    }
}

/// A wall clock that is further back than this was put back; less is the daily correction by a time service.
const SET_BACK_MS: i64 = 2_000;

/// Names that nobody has used.
pub trait Ids: fmt::Debug + Send + Sync {
    fn run_id(&self) -> RunId;
}

/// When this process first looked at its clocks.
static START: LazyLock<(Instant, Timestamp)> =
    LazyLock::new(|| (Instant::now(), SystemClock.wall()));

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        static STEADY: Steady = Steady::new();
        STEADY.read(self.wall(), START.0.elapsed()).max(self.counted())
    }

    fn counted(&self) -> Timestamp {
        let (start, first) = *START;
        first.plus(start.elapsed())
    }

    fn wall(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(at.since(self.now())).await;
    }
}

/// UUIDs of version 7: unique without coordination, and in the order of their making.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn run_id(&self) -> RunId {
        format!("run_{}", uuid::Uuid::now_v7().simple()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_a_clock_that_is_put_forward_and_none_that_is_put_back() {
        let steady = Steady::new();
        let read = |wall: i64, counted: u64| {
            steady.read(Timestamp::from_millis(wall), Duration::from_millis(counted)).as_millis()
        };
        let (hour, start) = (3_600_000, 1_000_000_000);
        assert_eq!(read(start, 0), start);
        assert_eq!(read(start + 10_005, 5), start + 10_005, "ten seconds forward");
        assert_eq!(read(start + hour + 10, 10), start + hour + 10, "an hour forward");
        let back = start + hour - 26 * hour;
        assert_eq!(read(back + 15, 15), start + hour + 15, "a day and more back");
        assert_eq!(read(back + 60_015, 60_015), start + hour + 60_015, "a minute later");
    }
}
