//! What other hosts of the same database have written: looked at regularly, because nobody tells this process.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_agents::AgentRegistry;
use callboard_engine::{Engine, StoreError};
use callboard_server::KeyRing;

/// A key that was revoked elsewhere may open this host for so long, and an event of another host's run be as late.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Others {
    pub(super) engine: Engine,
    pub(super) keys: KeyRing,
    pub(super) agents: Arc<AgentRegistry>,
}

impl Others {
    /// Sleeps and looks until told to stop.
    pub(super) async fn watch(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            if let Err(error) = self.tick().await {
                tracing::warn!(%error, "what other hosts have changed is not known; trying again");
            }
        }
    }

    async fn tick(&self) -> Result<(), StoreError> {
        self.engine.look_again();
        self.keys.reload().await?;
        self.agents.refresh().await
    }
}
