//! Retries of a run that failed: one by a request with a key, one among many. What completed is not called again, and
//! what is done again is called once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, RetryClass};
use callboard_engine::{
    Activities, Activity, Call, CallFailure, DryRun, Effect, Filter, KeyMode, OnUnknown, Once,
    OnceError, RetryDefinition, RetryOrder, Store,
};
use callboard_protocol::{Failure, NodeId, Object, RunId, RunStatus};

use super::scenario::{Host, Scenario, owner, runs};
use crate::sim::{order, scope};
use crate::simulation::{edge, node};
use crate::world::workflow;

/// Whoever is called, from process to process.
#[derive(Debug, Default)]
struct FarSide {
    is_mended: AtomicBool,
    /// Which calls have arrived, by node; one that is sent twice has one name.
    arrived: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

#[derive(Debug, Default)]
pub(super) struct Retries(Arc<FarSide>);

#[derive(Debug)]
struct Sender(Arc<FarSide>);

#[async_trait]
impl Activity for Sender {
    async fn perform(&self, call: Call) -> Outcome {
        let breaks = call.config.contains_key("breaks");
        let effect = Effect {
            index: 0,
            provider: "mail",
            request: &json!("letter"),
            on_unknown: OnUnknown::Repeat,
            is_recorded: false,
        };
        let (far, node) = (&self.0, call.attempt.node.to_string());
        let make = |once: Once| async move {
            let mut arrived = far.arrived.lock().unwrap();
            arrived.entry(node).or_default().insert(once.id.to_string());
            if breaks && !far.is_mended.load(Ordering::Relaxed) {
                let failure = Failure::new("broken", "not like this");
                return Err(CallFailure { failure, class: RetryClass::Final });
            }
            Ok(json!("sent"))
        };
        match call.once(effect, make).await {
            Ok(_) | Err(OnceError::Superseded) => Outcome::Done { outputs: Object::new() },
            Err(OnceError::Ended(outcome)) => outcome,
        }
    }
}

fn retry_of(source: &RunId, from: Option<&str>) -> RetryOrder {
    RetryOrder {
        source: source.clone(),
        from: from.map(NodeId::from),
        definition: RetryDefinition::Pinned,
        inputs: Object::new(),
        owner: owner(),
        key_mode: KeyMode::Live,
    }
}

/// The first of all runs, once it has failed.
async fn failed_source(host: &Host) -> RunId {
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    loop {
        let listed = host.store.list(&scope(), &filter).await.unwrap();
        let oldest = listed.last().unwrap();
        if oldest.status == RunStatus::Failed {
            return oldest.run_id.clone();
        }
        host.rest(1).await;
    }
}

#[async_trait(?Send)]
impl Scenario for Retries {
    fn reset(&self) {
        self.0.is_mended.store(false, Ordering::Relaxed);
        self.0.arrived.lock().unwrap().clear();
    }

    fn definitions(&self) -> Vec<String> {
        let mut letters = workflow(
            "letters",
            &[
                node("first", "test.sender", json!({})),
                node("second", "test.sender", json!({ "breaks": true })),
                node("last", "test.sender", json!({})),
            ],
        );
        let beside = node("beside", "test.sender", json!({}));
        letters["nodes"].as_array_mut().unwrap().push(beside);
        letters["edges"].as_array_mut().unwrap().push(edge("first", "beside"));
        vec![letters.to_string()]
    }

    fn activities(&self, _: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.sender", Arc::new(Sender(self.0.clone())))
    }

    fn steps(&self) -> usize {
        4
    }

    async fn act(&self, host: &Host, step: usize) {
        match step {
            0 => {
                let order = order("letters", Object::new(), Object::new());
                let create = async |remember| host.engine.create(order, Some(remember)).await;
                host.once("letters", create).await;
            }
            1 => {
                failed_source(host).await;
                self.0.is_mended.store(true, Ordering::Relaxed);
            }
            2 => {
                let order = retry_of(&failed_source(host).await, None);
                let retry = async |remember| {
                    let planned = host.engine.plan_retry(&scope(), order).await?;
                    host.engine.retry(planned, Some(remember)).await
                };
                host.once("retry", retry).await;
            }
            _ => {
                let order = retry_of(&failed_source(host).await, Some("second"));
                host.engine.retry_once(&scope(), order, DryRun::No).await.unwrap();
            }
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let arrived = self.0.arrived.lock().unwrap().clone();
        let arrived: BTreeMap<String, usize> =
            arrived.into_iter().map(|(node, calls)| (node, calls.len())).collect();
        // One by the run itself, and one by each of its retries.
        let expected = [("beside", 1), ("first", 1), ("last", 2), ("second", 3)];
        let expected = expected.map(|(node, calls)| (node.to_owned(), calls));
        assert_eq!(arrived, BTreeMap::from(expected));
        json!([arrived, runs(&*store).await])
    }
}
