//! The loop around every tick that says when it wants to be called again.

use std::time::Duration;

use tokio::sync::Notify;

use callboard_protocol::Timestamp;

use crate::engine::Engine;
use crate::store::StoreError;

/// How a tick is waited for.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// What is looked at, for the operator's log.
    pub(crate) what: &'static str,
    /// Says that there may be something to do.
    pub(crate) wake: &'a Notify,
    /// The longest sleep between two ticks. Hints come from this process only; other hosts write too.
    pub(crate) longest_sleep: Duration,
}

impl Engine {
    /// Sleeps and ticks until stopped. Holds no state worth testing.
    pub(crate) async fn tick_until_stopped<Ticked>(
        &self,
        pace: Pace<'_>,
        tick: impl Fn(Timestamp) -> Ticked + Send,
    ) where
        Ticked: Future<Output = Result<Option<Timestamp>, StoreError>> + Send,
    {
        let inner = &self.inner;
        loop {
            let now = inner.clock.now();
            let next = tick(now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, what = pace.what, "not looked at; trying again");
                None
            });
            let latest = now.plus(pace.longest_sleep);
            let until = next.map_or(latest, |next| next.min(latest));
            // Losing any of these branches is fine: the next tick reads the truth.
            tokio::select! {
                () = inner.clock.sleep_until(until) => {}
                () = pace.wake.notified() => {}
                () = inner.stop.cancelled() => return,
            }
        }
    }
}
