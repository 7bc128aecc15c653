//! Types that an operator declares: a node of one is a run of its workflow.

use std::sync::Arc;

use callboard_backends::DeclaredNode;
use callboard_core::Schema;
use callboard_engine::{Activities, InMemoryStore, Recorded};
use callboard_protocol::Object;
use serde_json::{Value, json};

use crate::sim::{SimClock, ended, host_with, order};
use crate::{node, outcome, ports, told};

fn schema(required: &str) -> Option<Schema> {
    let text = json!({ "type": "object", "required": [required], "properties": { required: { "type": "string" } } });
    Some(Schema::compile(text.to_string().as_bytes()).unwrap())
}

fn greet(workflow: &str) -> DeclaredNode {
    DeclaredNode {
        type_id: "acme.greet".to_owned(),
        description: "Greets somebody".to_owned(),
        workflow: workflow.into(),
        inputs: schema("name"),
        outputs: schema("greeting"),
    }
}

fn definition(id: &str, nodes: &[Value], variables: Value) -> String {
    json!({ "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": [], "triggers": [],
        "variables": variables, "metadata": {}, "settings": {} })
    .to_string()
}

async fn run(declared: DeclaredNode, inputs: Value) -> Vec<Recorded> {
    let above =
        definition("above", &[node("n", "acme.greet", json!({}), ports(&inputs))], json!([]));
    let said =
        json!({ "greeting": { "type": "expression", "expression": "'Hello, ' ~ vars.name" } });
    let variables = json!([{ "name": "name", "type": "string" }]);
    let below = definition("below", &[node("say", "core.identity", json!({}), said)], variables);
    let fails = definition("fails", &[node("no", "core.fail", json!({}), json!({}))], json!([]));
    let store = Arc::new(InMemoryStore::new());
    let activities = Activities::default().with("acme.greet", Arc::new(declared));
    let (clock, definitions) = (SimClock::new(), [above, below, fails]);
    let engine = host_with("host", store.clone(), store.clone(), clock, &definitions, activities);
    let described = engine.described_types().remove(0);
    assert_eq!(described["typeId"], "acme.greet");
    // As `NodeTypeList` of the API has it.
    for key in ["group", "summary", "config", "inputs", "outputs", "example", "configSchema"] {
        assert!(!described[key].is_null(), "{key}: {described}");
    }
    let run = engine.create(order("above", Object::new(), Object::new()), None).await.unwrap().run;
    let log = ended(&store, &run).await;
    engine.kill();
    log
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_declared_type_is_a_run_of_its_workflow() {
    let log = run(greet("below"), json!({ "name": "Ann" })).await;
    assert_eq!(outcome(&log), json!({ "greeting": "Hello, Ann" }));
    assert_eq!(told(&log, "node.dispatched").len(), 1, "it is a child like any other");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_match_the_declared_schemas_fails_in_words() {
    let failure = |log: &[Recorded]| outcome(log)["failed"].clone();
    let wrong = failure(&run(greet("below"), json!({ "name": 7 })).await);
    assert_eq!(wrong["code"], "validation_error");
    assert!(wrong["message"].as_str().unwrap().starts_with("the inputs: /name"), "{wrong}");
    let named = DeclaredNode { outputs: schema("farewell"), ..greet("below") };
    let wrong = failure(&run(named, json!({ "name": "Ann" })).await);
    assert!(wrong["message"].as_str().unwrap().starts_with("the outputs:"), "{wrong}");
    let failed = DeclaredNode { inputs: None, ..greet("fails") };
    assert_eq!(failure(&run(failed, json!({})).await)["code"], "child_run_failed");
    let unknown = DeclaredNode { inputs: None, ..greet("nobody") };
    assert_eq!(failure(&run(unknown, json!({})).await)["code"], "unknown_child_workflow");
}
