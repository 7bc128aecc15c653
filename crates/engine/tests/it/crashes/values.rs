//! Values that workflows keep: counted, set, compared and deleted once, whoever dies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::Outcome;
use callboard_engine::{
    Activities, Activity, Call, Effect, Kind, OnUnknown, OnceError, RecordQuery, Store,
    StoredValue, ValueChange, ValueName, Within,
};
use callboard_protocol::Object;

use super::scenario::{Host, Scenario, runs};
use crate::sim::{order, scope};
use crate::simulation::node;
use crate::world::workflow;

pub(super) struct KeptValues;

/// Counts twice, sets a value that expires, swaps another and deletes it, as nodes of `core.storage.*` do.
#[derive(Debug)]
struct Keeper;

#[async_trait]
impl Activity for Keeper {
    async fn perform(&self, call: Call) -> Outcome {
        let lasting = |value: Value| ValueChange::Set(StoredValue { value, expires_at: None });
        let brief = StoredValue { value: json!(1), expires_at: Some(call.now().plus_millis(500)) };
        let changes = [
            ("count", ValueChange::Add(1)),
            ("count", ValueChange::Add(10)),
            ("brief", ValueChange::Set(brief)),
            ("state", lasting(json!("open"))),
            ("state", ValueChange::Swap { expected: json!("open"), value: json!("shut") }),
            ("gone", lasting(json!("x"))),
            ("gone", ValueChange::Delete),
        ];
        let mut results = Vec::new();
        for (index, (key, change)) in (0..).zip(&changes) {
            let effect = Effect {
                index,
                provider: "kv",
                request: &json!(index),
                on_unknown: OnUnknown::Repeat,
                is_recorded: false,
            };
            let name = ValueName { namespace: "desk", key };
            let (call, name) = (&call, name);
            let made =
                call.once(
                    effect,
                    |once| async move { call.change_value(&once.id, name, change).await },
                );
            match made.await {
                Ok(value) => results.push(value),
                Err(OnceError::Superseded) => {}
                Err(OnceError::Ended(outcome)) => return outcome,
            }
        }
        Outcome::Done { outputs: Object::from_iter([("results".to_owned(), results.into())]) }
    }
}

#[async_trait(?Send)]
impl Scenario for KeptValues {
    fn definitions(&self) -> Vec<String> {
        let mut keeps = workflow("keeps", &[node("a", "test.keeper", json!({}))]);
        keeps["settings"] = json!({ "maxRetries": 9 });
        vec![keeps.to_string()]
    }

    fn activities(&self, _: &Arc<dyn Store>) -> Activities {
        Activities::default().with("test.keeper", Arc::new(Keeper))
    }

    fn steps(&self) -> usize {
        3
    }

    async fn act(&self, host: &Host, step: usize) {
        if step == 1 {
            return host.wait_until(20).await;
        }
        let order = order("keeps", Object::new(), Object::new());
        let create = async |remember| host.engine.create(order, Some(remember)).await;
        host.once(&format!("keeps-{step}"), create).await;
    }

    fn settles_in(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// What stands there for good; the count is that of all that is there, expired or not.
    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let all = |kind| RecordQuery::all(kind, Within::Place(scope()));
        let values = store.scan(&all(Kind::StoredValue)).await.unwrap();
        let counted = store.scan(&all(Kind::StoredValueCount)).await.unwrap();
        let counted: Value = counted[0].read().unwrap();
        assert_eq!(counted["values"], values.len());
        let lasting = values.iter().filter_map(|record| {
            let value: StoredValue = record.read().unwrap();
            value.expires_at.is_none().then(|| json!([record.key.as_str(), value.value]))
        });
        json!([lasting.collect::<Vec<_>>(), runs(&*store).await.as_array().unwrap().len()])
    }
}
