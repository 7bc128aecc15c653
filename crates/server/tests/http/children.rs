//! F43, F46–F48, F57: runs within runs, seen from outside.

use serde_json::{Value, json};

use callboard_core::HostLimits;

use crate::given::{RIVAL, Setup, TestHost, workflow};

const WORKFLOWS: &str = "/v1/host/callboard/workflows";

async fn register(host: &TestHost, definition: &Value) {
    let reply = host.post(WORKFLOWS, definition).send().await;
    assert!((200..300).contains(&reply.status), "{reply:?}");
}

/// A workflow whose node `call` runs another.
fn caller(id: &str, child: &str) -> Value {
    let mut definition = workflow(id, &[("call", "core.subWorkflow")]);
    definition["nodes"][0]["config"] = json!({ "workflowId": child });
    definition
}

async fn shown(host: &TestHost, run: &str) -> Value {
    host.get(&format!("/v1/runs/{run}")).send().await.json
}

/// Waits, through the API itself, until the run shows this status.
async fn until(host: &TestHost, run: &str, status: &str) -> Value {
    for _ in 0..1_000 {
        let snapshot = shown(host, run).await;
        if snapshot["status"] == status {
            return snapshot;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{run} never was {status}: {}", shown(host, run).await);
}

/// F43, F48: each side names the other, and each log is its own.
#[tokio::test(start_paused = true)]
async fn f43_parent_and_child_name_each_other() {
    let host = TestHost::start().await;
    register(&host, &caller("outer", "chain")).await;
    let run = host.run("outer", json!({})).await;
    let events = host.end_of(&run).await;
    let completed = events.iter().find(|event| event["type"] == "node.completed");
    let outputs = completed.expect("the call ends")["payload"]["outputs"].clone();
    assert_eq!(outputs["childStatus"], "completed");
    let child = outputs["childRunId"].as_str().expect("a child").to_owned();
    let dispatched = events.iter().find(|event| event["type"] == "node.dispatched");
    let dispatched = dispatched.expect("told when it began");
    assert_eq!(dispatched["nodeId"], "call");
    assert_eq!(dispatched["payload"], json!({ "childRunId": child, "childWorkflowId": "chain" }));
    assert!(events.iter().all(|event| event["nodeId"] != "a"), "the child's events are its own");
    let of_child = shown(&host, &child).await;
    assert_eq!(
        (&of_child["parentRunId"], &of_child["parentNodeId"]),
        (&json!(run), &json!("call"))
    );
    let of_parent = shown(&host, &run).await;
    assert_eq!(of_parent["childRuns"][0]["runId"], child);
    let ancestry = host.get(&format!("/v1/runs/{child}/ancestry")).send().await.json;
    let host_id = ancestry["hostId"].clone();
    let parent = json!({ "runId": run, "hostId": host_id, "cause": "core.subWorkflow" });
    assert_eq!(ancestry, json!({ "runId": child, "hostId": host_id, "parent": parent }));
    let top = host.get(&format!("/v1/runs/{run}/ancestry")).send().await.json;
    assert_eq!(top["parent"], Value::Null);
    let foreign = host.get(&format!("/v1/runs/{child}/ancestry")).key(RIVAL).send().await;
    assert_eq!(foreign.status, 404);
}

/// F46, F47: what the child waits for shows on the parent; cancelling the parent takes the child along.
#[tokio::test(start_paused = true)]
async fn f47_a_cancel_cascades_and_closes_what_was_asked() {
    let host = TestHost::start().await;
    register(&host, &workflow("ask", &[("gate", "core.approvalGate")])).await;
    register(&host, &caller("inner", "ask")).await;
    register(&host, &caller("outer", "inner")).await;
    let run = host.run("outer", json!({})).await;
    let parent = until(&host, &run, "waiting-approval").await;
    assert_eq!(parent["currentNodeId"], "call");
    assert_eq!(parent["childRuns"][0]["status"], "waiting-approval");
    let middle = parent["childRuns"][0]["runId"].as_str().expect("a child").to_owned();
    let leaf = until(&host, &middle, "waiting-approval").await["childRuns"][0]["runId"].clone();
    let leaf = leaf.as_str().expect("a grandchild").to_owned();
    let reply = host.post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": "enough" })).send();
    assert_eq!(reply.await.status, 200);
    let of_leaf = host.end_of(&leaf).await;
    let last = of_leaf.last().expect("events");
    assert_eq!(last["type"], "run.cancelled");
    assert_eq!(last["payload"]["reason"], "parent-cancelled");
    assert_eq!(last["payload"]["parentRunId"], middle);
    let of_top = host.end_of(&run).await;
    let last = of_top.last().expect("events");
    assert_eq!(last["payload"]["reason"], "enough");
    assert_eq!(last["payload"].get("parentRunId"), None, "a direct cancel names nobody");
    let late = host
        .post(
            &format!("/v1/runs/{leaf}/interrupts/gate"),
            &json!({ "resumeValue": { "action": "accept" } }),
        )
        .send()
        .await;
    assert_eq!((late.status, late.text_at("error").as_str()), (410, "interrupt_gone"));
}

/// F46: an answer to the child lets the parent go on.
#[tokio::test(start_paused = true)]
async fn f46_an_answered_child_lets_its_parent_go_on() {
    let host = TestHost::start().await;
    register(&host, &workflow("ask", &[("gate", "core.approvalGate")])).await;
    register(&host, &caller("outer", "ask")).await;
    let run = host.run("outer", json!({})).await;
    let parent = until(&host, &run, "waiting-approval").await;
    let child = parent["childRuns"][0]["runId"].as_str().expect("a child").to_owned();
    let answer = json!({ "resumeValue": { "action": "accept" } });
    host.post(&format!("/v1/runs/{child}/interrupts/gate"), &answer).send().await;
    let events = host.end_of(&run).await;
    assert_eq!(events.last().expect("events")["type"], "run.completed");
}

/// F57: a workflow that is not there is refused before anything begins, and fails the call if it goes later.
#[tokio::test(start_paused = true)]
async fn f57_an_unknown_child_is_refused() {
    let host = TestHost::start().await;
    register(&host, &caller("outer", "nowhere")).await;
    let reply = host.post("/v1/runs", &json!({ "workflowId": "outer" })).send().await;
    assert_eq!((reply.status, reply.text_at("error").as_str()), (422, "unknown_child_workflow"));
    assert_eq!(reply.json["details"], json!({ "nodeId": "call", "workflowId": "nowhere" }));
}

/// A workflow that calls itself ends with a clear error, not with the disk.
#[tokio::test(start_paused = true)]
async fn a_workflow_that_calls_itself_stops_at_a_depth() {
    let host = TestHost::start().await;
    register(&host, &caller("endless", "endless")).await;
    let run = host.run("endless", json!({})).await;
    host.end_of(&run).await;
    let error = shown(&host, &run).await["error"].clone();
    assert_eq!(error["code"], "child_run_failed");
    let listed = host.get("/v1/host/callboard/runs?limit=100").send().await;
    assert_eq!(listed.json["runs"].as_array().map(Vec::len), Some(17));
}

/// A workflow that starts itself twice grows in breadth long before it is too deep.
#[tokio::test(start_paused = true)]
async fn a_family_that_multiplies_is_stopped() {
    let limits = HostLimits { max_family_runs: 20, ..HostLimits::default() };
    let host = TestHost::of(Setup { limits, ..Setup::default() }).await;
    let mut definition = workflow("many", &[("a", "core.subWorkflow"), ("b", "core.subWorkflow")]);
    for node in definition["nodes"].as_array_mut().expect("nodes") {
        node["config"] = json!({ "workflowId": "many" });
    }
    definition["edges"] = json!([]);
    register(&host, &definition).await;
    let run = host.run("many", json!({})).await;
    let ended = until(&host, &run, "failed").await;
    assert!(ended["error"].to_string().contains("recursion_limit_exceeded"), "{ended}");
    let runs = host.get("/v1/host/callboard/runs?limit=100").send().await.json;
    let listed = runs["runs"].as_array().expect("runs");
    assert_eq!(listed.len(), 21, "the run itself and those below it");
    assert!(
        listed.iter().all(|run| run["status"] == "failed" || run["status"] == "cancelled"),
        "{runs}"
    );
}
