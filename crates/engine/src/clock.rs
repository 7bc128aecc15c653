//! Time and fresh names, as arguments: the only door through which either enters.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use callboard_protocol::{RunId, Timestamp};

/// What time it is, and waiting for another.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// Returns once the clock shows `at` or later.
    async fn sleep_until(&self, at: Timestamp);
}

/// Names that nobody has used.
pub trait Ids: fmt::Debug + Send + Sync {
    fn run_id(&self) -> RunId;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
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
