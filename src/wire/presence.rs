//! This host among those of its database: said again and again while it is there.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use callboard_engine::{Engine, HostSeen};
use callboard_store::PostgresStore;

/// Three of these may get lost before a host counts as gone.
const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Presence {
    pub(super) store: Arc<PostgresStore>,
    pub(super) engine: Engine,
    /// Where it is reached, and which version it is.
    pub(super) address: String,
    pub(super) version: String,
}

impl Presence {
    pub(super) async fn keep(self, stop: CancellationToken) {
        let started_at = self.engine.clock().now();
        let beating = async {
            loop {
                let host = HostSeen {
                    id: self.engine.host().clone(),
                    version: self.version.clone(),
                    address: self.address.clone(),
                    started_at,
                    seen_at: started_at,
                    is_gone: false,
                    load: self.engine.driving_load(),
                    latency_ms: 0,
                    is_listening: false,
                };
                if let Err(error) = self.store.beat(&host).await {
                    tracing::warn!(%error, "other hosts do not learn that this one is there");
                }
                tokio::time::sleep(EVERY).await;
            }
        };
        stop.run_until_cancelled(beating).await;
        // What stays there is taken for the row of a host that died.
        if let Err(error) = self.store.leave(self.engine.host()).await {
            tracing::debug!(%error, "this host stays on the list until it is forgotten");
        }
    }
}
