//! When keys were used last, written down now and then.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_server::KeyRing;

/// Whoever asks when a key was used last asks about days.
const EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Uses {
    pub(super) keys: KeyRing,
}

impl Uses {
    /// Once more at the end, so that a host that stops in order forgets nothing.
    pub(super) async fn keep(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            self.tick().await;
        }
        self.tick().await;
    }

    async fn tick(&self) {
        if let Err(error) = self.keys.note_uses().await {
            tracing::warn!(%error, "when keys were used last is not written down; trying again");
        }
    }
}
