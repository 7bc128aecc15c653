//! How long ended runs are kept: the loop that removes those whose time is over.

use std::sync::Arc;
use std::time::Duration;

use callboard_protocol::Timestamp;

use crate::engine::Engine;
use crate::store::StoreError;
use crate::webhooks::Webhooks;

/// Runs that go in one commit. Their logs may be long, and other writes wait for them.
const BATCH: usize = 16;
/// Nobody waits for it.
const EVERY: Duration = Duration::from_secs(60);

/// Removes runs that ended long enough ago. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sweeper {
    engine: Engine,
    webhooks: Webhooks,
    keep: Duration,
}

impl Sweeper {
    /// Nothing goes before this: whatever is sent twice within a day finds what it came to, and the protocol asks a
    /// host in production for a week.
    pub const SHORTEST: Duration = Duration::from_secs(7 * 86_400);

    /// Runs on the engine's clock and tasks, and stops with it. A shorter time than [`Self::SHORTEST`] is that.
    pub fn new(engine: Engine, keep: Duration) -> Self {
        let webhooks = Webhooks::new(Arc::clone(&engine.inner.store));
        Self { engine, webhooks, keep: keep.max(Self::SHORTEST) }
    }

    pub fn start(&self) {
        self.engine.inner.tasks.spawn(self.clone().sweep_until_stopped());
    }

    /// Removes what is too old then, batch by batch; answers how many runs that were.
    pub async fn tick(&self, now: Timestamp) -> Result<usize, StoreError> {
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.as_millis().saturating_sub(keep));
        let mut gone = 0;
        loop {
            let planned = self.webhooks.planned_until().await?;
            let removed = self.engine.inner.store.remove_ended(before, planned, BATCH).await?;
            gone += removed.len();
            if removed.len() < BATCH || self.engine.inner.stop.is_cancelled() {
                return Ok(gone);
            }
        }
    }

    /// Sleeps and ticks until stopped. Holds no state worth testing.
    async fn sweep_until_stopped(self) {
        let inner = &self.engine.inner;
        loop {
            let now = inner.clock.now();
            // Losing either branch is fine: the next tick reads the truth.
            tokio::select! {
                () = inner.clock.sleep_until(now.plus(EVERY)) => {}
                () = inner.stop.cancelled() => return,
            }
            match self.tick(inner.clock.now()).await {
                Ok(0) => {}
                Ok(gone) => tracing::info!(runs = gone, "ended runs removed"),
                Err(error) => tracing::warn!(%error, "ended runs not removed; trying again"),
            }
        }
    }
}
