//! Supervisors and agents that are not sure, seen from outside: M-09, M-11, M-22, M-30, A-53.

use serde_json::{Value, json};

use crate::agents::{TRIAGER, host as stocked, task};
use crate::given::{LIVE, Setup, TestHost, TestSeams, workflow};

const WORKFLOWS: &str = "/v1/host/callboard/workflows";

/// A supervisor with a plan and a node that carries it out, round and round.
fn orchestra(plan: Value, dispatch: Value) -> Value {
    let mut definition = workflow(
        "orchestra",
        &[("boss", "core.orchestrator.supervisor"), ("work", "core.dispatch")],
    );
    definition["nodes"][0]["config"] = json!({ "mockDispatchPlan": plan });
    definition["nodes"][1]["config"] = dispatch;
    definition["edges"] = json!([
        { "id": "e1", "sourceNodeId": "boss", "targetNodeId": "work" },
        { "id": "e2", "sourceNodeId": "work", "targetNodeId": "boss" },
    ]);
    definition
}

async fn play(host: &TestHost, plan: Value) -> String {
    let reply = host.post(WORKFLOWS, &orchestra(plan, json!({}))).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    host.run("orchestra", json!({})).await
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

async fn waits(host: &TestHost, run: &str) -> Value {
    for _ in 0..1_000 {
        let inbox = host.get(&format!("/v1/host/callboard/inbox?runId={run}")).send().await.json;
        if inbox["interrupts"][0].is_object() {
            return inbox["interrupts"][0].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{run} asks nobody");
}

async fn answer(host: &TestHost, run: &str, node: &str, value: Value) -> u16 {
    let path = format!("/v1/runs/{run}/interrupts/{node}");
    host.post(&path, &json!({ "resumeValue": value })).send().await.status
}

/// M-09, M-20: what a client reads of a handoff.
#[tokio::test(start_paused = true)]
async fn m09_events_of_a_dispatch_answer_the_decision() {
    let host = TestHost::start().await;
    let plan =
        json!([{ "kind": "next-worker", "nextWorkerIds": ["noop"] }, { "kind": "terminate" }]);
    let run = play(&host, plan).await;
    let events = host.end_of(&run).await;
    let decided = of_kind(&events, "runOrchestrator.decided");
    let chain = of_kind(&events, "core.workflowChain.event");
    assert_eq!((decided.len(), chain.len()), (2, 3), "{events:#?}");
    assert_eq!(chain[0]["causationId"], decided[0]["eventId"]);
    assert_eq!(chain[1]["causationId"], chain[0]["eventId"]);
    assert_eq!(chain[2]["causationId"], chain[1]["eventId"]);
    assert_eq!(decided[0]["nodeId"], "boss");
    let last = events.last().expect("an end");
    assert_eq!(
        (&last["type"], &last["causationId"]),
        (&json!("run.completed"), &decided[1]["eventId"])
    );
}

/// M-11, M-22.
#[tokio::test(start_paused = true)]
async fn m11_what_cannot_be_carried_out_is_refused() {
    let host = TestHost::start().await;
    let alone = workflow("alone", &[("work", "core.dispatch")]);
    for definition in [
        alone,
        orchestra(json!([{ "kind": "dance" }]), json!({})),
        orchestra(json!([]), json!({ "fanOutPolicy": "broadcast" })),
    ] {
        let reply = host.post(WORKFLOWS, &definition).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"));
        let place = reply.json["details"]["path"].as_str().unwrap_or_default();
        assert!(place.starts_with("nodes."), "{reply:?}");
    }
    let ghost = json!([{ "kind": "next-worker", "nextWorkerIds": ["ghost"] }]);
    let run = play(&host, ghost).await;
    let events = host.end_of(&run).await;
    let failed = events.last().expect("an end");
    assert_eq!(failed["payload"]["error"]["code"], "unknown_child_workflow");
}

/// M-30: the inbox says who is unsure of what, and an answer may edit it.
#[tokio::test(start_paused = true)]
async fn m30_an_unsure_decision_waits_in_the_inbox() {
    let host = TestHost::start().await;
    let unsure = json!({ "kind": "next-worker", "nextWorkerIds": ["noop"], "confidence": 0.2 });
    let run = play(&host, json!([unsure])).await;
    let asked = waits(&host, &run).await;
    assert_eq!((&asked["kind"], &asked["nodeId"]), (&json!("approval"), &json!("boss")));
    let proposal = json!({ "agentId": "host:supervisor:boss", "threshold": 0.5, "observed": 0.2,
        "decision": unsure });
    assert_eq!(asked["data"]["artifactData"], proposal);
    let nonsense = json!({ "action": "edit-accept", "decision": { "kind": "dance" } });
    assert_eq!(answer(&host, &run, "boss", nonsense).await, 400);
    let edit = json!({ "action": "edit-accept", "decision": { "kind": "terminate" } });
    assert_eq!(answer(&host, &run, "boss", edit).await, 200);
    let events = host.end_of(&run).await;
    assert!(of_kind(&events, "node.dispatched").is_empty());
    assert_eq!(events.last().expect("an end")["type"], "run.completed");
}

/// an agent that is less sure than its run asks for suspends after it decided; what is answered is its result.
#[tokio::test(start_paused = true)]
async fn a53_an_unsure_agent_asks_and_its_answer_is_the_result() {
    let host = stocked().await;
    let body = json!({ "agentId": TRIAGER, "inputs": task(),
        "configurable": { "escalationThreshold": 0.95 } });
    let run = host.run_as(LIVE, body.clone()).await;
    let asked = waits(&host, &run).await;
    assert_eq!(asked["kind"], "low-confidence");
    let data = &asked["data"];
    assert_eq!((&data["agentId"], &data["threshold"]), (&json!(TRIAGER), &json!(0.95)));
    assert!(data["observed"].as_f64() < data["threshold"].as_f64(), "{data}");
    let proposed = data["decision"].clone();
    assert_eq!((&data["task"], &data["reason"]), (&task(), &proposed["reason"]));
    assert!(data["reason"].is_string(), "{data}");
    assert_eq!(answer(&host, &run, "agent", json!({ "action": "accept" })).await, 200);
    let events = host.end_of(&run).await;
    // The protocol closes what the event says.
    let requested = &of_kind(&events, "interrupt.requested")[0]["payload"]["data"];
    let requested: Vec<&String> = requested.as_object().expect("data").keys().collect();
    assert_eq!(requested, ["agentId", "decision", "observed", "threshold"]);
    let decided = of_kind(&events, "agent.decided");
    assert_eq!((decided.len(), &decided[1]["payload"]["decision"]), (2, &proposed));
    assert_eq!(events.last().expect("an end")["payload"]["outputs"], proposed);
    for (value, code) in [
        (json!({ "action": "reject" }), "low_confidence_rejected"),
        (json!({ "not": "what the schema says" }), "handoff_return_schema_violation"),
    ] {
        let run = host.run_as(LIVE, body.clone()).await;
        waits(&host, &run).await;
        assert_eq!(answer(&host, &run, "agent", value).await, 200);
        let events = host.end_of(&run).await;
        assert_eq!(events.last().expect("an end")["payload"]["error"]["code"], code);
    }
    let sure = json!({ "agentId": TRIAGER, "inputs": task(),
        "configurable": { "escalationThreshold": 0.1 } });
    let run = host.run_as(LIVE, sure).await;
    assert!(of_kind(&host.end_of(&run).await, "node.suspended").is_empty());
}

/// The suite's door to workers side by side goes through a run like any other.
#[tokio::test(start_paused = true)]
async fn a_fan_out_of_the_suite_is_a_run() {
    let host = TestHost::of(Setup { seams: TestSeams::On, ..Setup::default() }).await;
    let path = "/v1/host/sample/dispatch/fanout";
    let fan_out = |workers: Value, join: Value| {
        json!({ "nextWorkerIds": workers,
        "config": { "fanOutPolicy": "parallel", "joinPolicy": join } })
    };
    let body = fan_out(json!(["noop", "conformance.child.b"]), json!({ "mode": "wait-all" }));
    let reply = host.post(path, &body).send().await;
    assert_eq!((reply.status, &reply.json["joinOutcome"]), (200, &json!("satisfied")), "{reply:?}");
    assert_eq!(reply.json["children"].as_array().map(Vec::len), Some(2));
    assert_eq!(reply.json["mergeOrder"].as_array().map(Vec::len), Some(2));
    let failing = fan_out(json!(["noop", "fail"]), json!({ "onChildFailure": "fail-fast" }));
    let reply = host.post(path, &failing).send().await;
    assert_eq!(reply.json["joinOutcome"], "failed", "{reply:?}");
    let left = host.get(WORKFLOWS).send().await.json.to_string();
    assert!(!left.contains("conformance-child-b") && !left.contains("fanout-seam"), "{left}");
    for wrong in [
        fan_out(json!(["noop"]), json!({})),
        fan_out(json!(["noop", "fail"]), json!({ "mode": "quorum" })),
        json!({ "nextWorkerIds": ["noop", "fail"] }),
    ] {
        assert_eq!(host.post(path, &wrong).send().await.status, 400, "{wrong}");
    }
}
