//! Runs that somebody pauses, resumes, cancels or forks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{EngineError, Filter, ForkOrder, Overlay, Store};
use callboard_protocol::{DrainPolicy, ForkMode, Object, RunId};

use super::scenario::{Host, Scenario, owner, runs};
use crate::roster::noop;
use crate::sim::{order, scope};
use crate::simulation::node;
use crate::world::workflow;

pub(super) struct Control;

async fn create(host: &Host, workflow: &str) {
    let order = order(workflow, Object::new(), Object::new());
    host.once(workflow, async |remember| host.engine.create(order, Some(remember)).await).await;
}

async fn run_of(store: &dyn Store, workflow: &str) -> RunId {
    let filter = Filter { workflow: Some(workflow.into()), limit: 9, ..Filter::default() };
    // The oldest: forks come after it.
    store.list(&scope(), &filter).await.unwrap().pop().unwrap().run_id
}

#[async_trait(?Send)]
impl Scenario for Control {
    fn definitions(&self) -> Vec<String> {
        let waits = |id: &str| {
            workflow(id, &[node("a", "core.delay", json!({ "ms": 3_600_000 }))]).to_string()
        };
        vec![noop(), waits("paused"), waits("cancelled")]
    }

    fn steps(&self) -> usize {
        8
    }

    async fn act(&self, host: &Host, step: usize) {
        let (engine, store) = (&host.engine, &*host.store);
        match step {
            0 => create(host, "campaign").await,
            1 => create(host, "paused").await,
            2 => create(host, "cancelled").await,
            // Until the one has ended and the others wait, whoever drives them.
            3 => host.wait_until(20).await,
            4 => {
                let run = run_of(store, "paused").await;
                let drain = DrainPolicy::Immediate;
                let pause =
                    async |remember| engine.pause(&scope(), &run, drain, None, remember).await;
                host.once("pause", async |remember| pause(Some(remember)).await).await;
            }
            5 => {
                let run = run_of(store, "paused").await;
                let resume = async |remember| engine.resume(&scope(), &run, None, remember).await;
                host.once("resume", async |remember| resume(Some(remember)).await).await;
            }
            6 => {
                let run = run_of(store, "cancelled").await;
                let cancel =
                    async |remember| engine.cancel(&scope(), &run, None, None, remember).await;
                host.once("cancel", async |remember| cancel(Some(remember)).await).await;
            }
            _ => {
                let order = ForkOrder {
                    source: run_of(store, "campaign").await,
                    from: 0,
                    mode: ForkMode::Branch,
                    owner: owner(),
                    key_mode: scope().mode,
                    dialect: callboard_protocol::Dialect::V1,
                    overlay: Overlay::default(),
                };
                let fork = async |remember| -> Result<_, EngineError> {
                    engine.fork(&scope(), order, Some(remember)).await
                };
                host.once("fork", fork).await;
            }
        }
    }

    fn settles_in(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        runs(&*store).await
    }
}
