//! Runs that one node starts for every item of a list, several at once, and the run that another invokes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_engine::{Filter, Store};
use callboard_protocol::Object;

use super::scenario::{Host, Scenario};
use crate::sim::{order, scope};
use crate::simulation::node;
use crate::world::workflow;

pub(super) struct Fan;

fn fixed(value: Value) -> Value {
    json!({ "type": "static", "value": value })
}

#[async_trait(?Send)]
impl Scenario for Fan {
    fn definitions(&self) -> Vec<String> {
        let mut each =
            node("a", "callboard.each", json!({ "workflowId": "below", "maxConcurrency": 2 }));
        each["inputs"]["items"] = fixed(json!([1, 2, 3]));
        let mut invoke = node("b", "core.flow.sub-workflow-invoke", json!({}));
        invoke["inputs"]["workflowRef"] = fixed(json!("below"));
        invoke["inputs"]["inputs"] = fixed(json!({ "item": 4 }));
        let mut tell = node("tell", "core.identity", json!({}));
        tell["inputs"]["said"] = json!({ "type": "expression", "expression": "inputs.item * 10" });
        let wait = node("wait", "core.delay", json!({ "ms": 2_500 }));
        let all = [workflow("above", &[each, invoke]), workflow("below", &[wait, tell])];
        all.iter().map(Value::to_string).collect()
    }

    fn steps(&self) -> usize {
        1
    }

    async fn act(&self, host: &Host, _: usize) {
        let order = order("above", Object::new(), Object::new());
        host.once("above", async |remember| host.engine.create(order, Some(remember)).await).await;
    }

    fn settles_in(&self) -> Duration {
        Duration::from_secs(90)
    }

    /// What the runs came to, and how many there are: none is started twice.
    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let filter = Filter { limit: 99, ..Filter::default() };
        let mut ends = Vec::new();
        for run in store.list(&scope(), &filter).await.unwrap() {
            let opened = store.open(&run.run_id).await.unwrap().unwrap();
            let last = opened.entries.last().unwrap().event.payload();
            ends.push(json!([opened.birth.workflow_id, last["outputs"]]));
        }
        ends.sort_by_key(Value::to_string);
        ends.into()
    }
}
