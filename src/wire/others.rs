//! What other hosts of the same database have written: looked at when one of them gives a hint, and regularly, because
//! a hint may get lost.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_agents::AgentRegistry;
use callboard_engine::{Elsewhere as _, Engine, StoreError};
use callboard_server::KeyRing;
use callboard_store::PostgresStore;

/// What comes within this time is looked at once.
const GATHERED: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Others {
    pub(super) store: Arc<PostgresStore>,
    pub(super) engine: Engine,
    pub(super) keys: KeyRing,
    pub(super) agents: Arc<AgentRegistry>,
}

impl Others {
    /// Waits and looks until told to stop.
    pub(super) async fn watch(self, stop: CancellationToken) {
        while let Some(looked) = stop.run_until_cancelled(self.tick()).await {
            if let Err(error) = looked {
                tracing::warn!(%error, "what other hosts have changed is not known; trying again");
            }
        }
    }

    async fn tick(&self) -> Result<(), StoreError> {
        match tokio::time::timeout(self.store.polls_every(), self.store.heard()).await {
            Ok(heard) => {
                self.engine.hear(&heard);
                if heard.caches_changed {
                    self.catch_up().await?;
                }
                tokio::time::sleep(GATHERED).await;
                Ok(())
            }
            Err(_) => {
                self.engine.look_again();
                self.catch_up().await
            }
        }
    }

    /// Requests ask by themselves; this is for the streams of a revoked key, and for runs that need a new pack.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let generations = self.store.generations().await?;
        self.keys.catch_up(generations.keys).await?;
        self.agents.catch_up(generations.packs).await
    }
}
