//! A run whose first host dies, and one that is played again.

use std::sync::Arc;

use callboard_engine::{Engine, ForkOrder, KeyMode, Order, Overlay, Recorded};
use callboard_protocol::{ForkMode, RunId};
use serde_json::json;

use crate::given::{World, agent_order, task};
use crate::sim::{Fate, doomed_store, ended, scope};

impl World {
    /// Carries an order out while its first host meets its fate. Answers the log, and how often that host wrote.
    pub(crate) async fn survive(&self, order: Order, fate: Fate) -> (Vec<Recorded>, u64) {
        let doomed = doomed_store(Arc::clone(&self.store), fate);
        let first = self.host("first", Arc::clone(&doomed) as _);
        let run = first.create(order, None).await.unwrap().run;
        if fate != Fate::Live {
            tokio::select! {
                () = doomed.died.notified() => {}
                _ = ended(&self.store, &run) => {}
            }
            first.kill();
            self.host("second", Arc::clone(&self.store) as _);
        }
        (ended(&self.store, &run).await, doomed.appends())
    }

    /// The log of a replay from the very beginning.
    pub(crate) async fn replay(&self, source: &[Recorded]) -> Vec<Recorded> {
        let host = self.host("again", Arc::clone(&self.store) as _);
        let replay = fork(&host, &source[0].run, 0, ForkMode::Replay).await;
        ended(&self.store, &replay).await
    }
}

/// Forks a run before its event `from`.
pub(crate) async fn fork(host: &Engine, source: &RunId, from: u64, mode: ForkMode) -> RunId {
    let order = ForkOrder {
        source: source.clone(),
        from,
        mode,
        owner: agent_order(task(), json!({})).owner,
        key_mode: KeyMode::Live,
        dialect: callboard_protocol::Dialect::V1,
        overlay: Overlay::default(),
    };
    host.fork(&scope(), order, None).await.expect("a fork").run
}
