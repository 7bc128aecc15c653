//! How long a stream may live, together with the signs of life that it owes its client.

use std::sync::Arc;
use std::time::Duration;

use callboard_engine::StoreError;
use tokio::time::Instant;

use crate::app::Host;
use crate::keys::Caller;

pub(crate) const KEEP_ALIVE: &str = ":keepalive\n\n";

/// Between two tries at a database that is away.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Lifeline {
    pub(crate) host: Arc<Host>,
    pub(crate) caller: Caller,
    keep_alive_at: Instant,
}

impl Lifeline {
    pub(crate) fn new(host: Arc<Host>, caller: Caller) -> Self {
        let keep_alive_at = Instant::now() + host.app.config.keep_alive;
        Self { host, caller, keep_alive_at }
    }

    /// To be asked before every read: neither a busy run nor a slow reader outlives its key.
    pub(crate) fn is_over(&self) -> bool {
        self.host.app.shutdown.is_cancelled() || self.caller.is_over(self.host.now())
    }

    /// Whether it is time to say something, whatever there is to say.
    pub(crate) fn is_due(&self) -> bool {
        self.keep_alive_at <= Instant::now()
    }

    /// Whatever is sent is a sign of life.
    pub(crate) fn sent<T>(&mut self, text: T) -> T {
        self.keep_alive_at = Instant::now() + self.host.app.config.keep_alive;
        text
    }

    /// Waits until the stream is over or due.
    pub(crate) async fn lapse(&self) {
        // Losing any of these waits is fine: each is begun again from what the clock says.
        tokio::select! {
            () = self.host.app.shutdown.cancelled() => {}
            () = self.caller.over(self.host.app.engine.clock().as_ref()) => {}
            () = tokio::time::sleep_until(self.keep_alive_at) => {}
        }
    }

    /// What was read; none where the database is away, which a stream outlives. It is asked again after a pause.
    pub(crate) async fn patient<T>(
        &self,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let Err(StoreError::Unavailable(why)) = read else { return read.map(Some) };
        tracing::debug!(why, "a stream waits for the database");
        // Losing either wait is fine: the reader asks again.
        tokio::select! {
            () = self.lapse() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
        Ok(None)
    }
}
