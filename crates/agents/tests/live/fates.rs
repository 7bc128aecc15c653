//! A run whose first host dies, and one that is played again.

use std::sync::Arc;

use callboard_engine::{ForkOrder, KeyMode, Order, Overlay, Recorded};
use callboard_protocol::ForkMode;
use serde_json::json;

use crate::given::{World, agent_order, task};
use crate::sim::{DoomedStore, Fate, ended, scope};

impl World {
    /// Carries an order out while its first host meets its fate. Answers the log, and how often that host wrote.
    pub(crate) async fn survive(&self, order: Order, fate: Fate) -> (Vec<Recorded>, u64) {
        let doomed = DoomedStore::new(Arc::clone(&self.store), fate);
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
        let fork = ForkOrder {
            source: source[0].run.clone(),
            from: 0,
            mode: ForkMode::Replay,
            owner: agent_order(task(), json!({})).owner,
            key_mode: KeyMode::Live,
            overlay: Overlay::default(),
        };
        let replay = host.fork(&scope(), fork, None).await.expect("a replay").run;
        ended(&self.store, &replay).await
    }
}
