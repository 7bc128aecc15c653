//! The loop of a supervisor and what children leave, through the doors of the suite (S-17, S-18); causes across hosts.

use serde_json::{Value, json};

use callboard_core::HostLimits;
use callboard_server::TestKeys;

use crate::given::{Setup, TestHost, TestSeams, workflow};

const LOOP: &str = "/v1/host/sample/agentloop/run";
const ATTEST: &str = "/v1/host/sample/subrun/attest";

async fn host(execution_model: u32) -> TestHost {
    let limits = HostLimits { execution_model, ..HostLimits::default() };
    let (seams, test_keys) = (TestSeams::On, TestKeys::All);
    TestHost::of(Setup { seams, test_keys, limits, ..Setup::default() }).await
}

fn iterations(shown: &Value) -> Vec<Option<u64>> {
    let decisions = shown["decisions"].as_array().expect("decisions");
    decisions.iter().map(|decision| decision["iteration"].as_u64()).collect()
}

/// S-17, M-80, M-82, M-83.
#[tokio::test(start_paused = true)]
async fn s17_turns_are_counted_resumed_and_bounded() {
    let host = host(5).await;
    let plain = host.post(LOOP, &json!({ "turns": 4 })).send().await;
    assert_eq!(plain.status, 200, "{plain:?}");
    assert_eq!(iterations(&plain.json), [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(plain.json["resumedIteration"], Value::Null);
    let body = json!({ "turns": 4, "suspendAtTurn": 2, "resume": true });
    let resumed = host.post(LOOP, &body).send().await;
    assert_eq!((resumed.status, &resumed.json["resumedIteration"]), (200, &json!(2)));
    assert_eq!(iterations(&resumed.json), [Some(1), Some(2), Some(3), Some(4)]);
    let waits = host.post(LOOP, &json!({ "turns": 4, "suspendAtTurn": 2 })).send().await;
    assert_eq!(iterations(&waits.json), [Some(1), Some(2)]);
    let bounded = host.post(LOOP, &json!({ "turns": 4, "maxLoopIterations": 2 })).send().await;
    let breach = json!({ "kind": "loop-iterations", "limit": 2, "observed": 3 });
    assert_eq!(bounded.json["bound"], breach, "{bounded:?}");
    for wrong in [json!({}), json!({ "turns": 0 }), json!({ "turns": 33 }), json!({ "turn": 1 })] {
        assert_eq!(host.post(LOOP, &wrong).send().await.status, 400, "{wrong}");
    }
}

/// S-17, M-81: what a turn writes is seen by the next one and not by itself.
#[tokio::test(start_paused = true)]
async fn s17_what_a_turn_writes_is_for_the_next_one() {
    let host = host(5).await;
    for (turns, turn) in [(2, 1), (4, 2), (4, 3)] {
        let body = json!({ "turns": turns, "workspaceWriteAtTurn": turn });
        let shown = host.post(LOOP, &body).send().await;
        assert_eq!(shown.status, 200, "{shown:?}");
        let visible = json!({ "atWriteTurn": false, "atNextTurn": true });
        assert_eq!(shown.json["workspaceVisible"], visible, "{body}");
        assert_eq!(iterations(&shown.json).len(), turns, "{body}");
    }
    // A loop that stops before cannot say what it would have seen.
    let stops = json!({ "turns": 4, "workspaceWriteAtTurn": 3, "maxLoopIterations": 1 });
    let stopped = host.post(LOOP, &stops).send().await;
    assert_eq!((stopped.status, &stopped.json["workspaceVisible"]), (200, &Value::Null));
    for turn in [0, 2, 9] {
        let body = json!({ "turns": 2, "workspaceWriteAtTurn": turn });
        assert_eq!(host.post(LOOP, &body).send().await.status, 400, "{turn}");
    }
    let left = host.get("/v1/host/workspace/files").send().await.json;
    assert_eq!(left["files"], json!([]));
}

/// What is not promised is neither said nor done.
#[tokio::test(start_paused = true)]
async fn an_older_model_counts_no_turns() {
    let host = host(3).await;
    let refused = host.post(LOOP, &json!({ "turns": 2 })).send().await;
    assert_eq!(refused.text_at("error"), "capability_required");
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    let model = &document["multiAgent"]["executionModel"];
    assert_eq!((&model["version"], &model["statefulResume"]), (&json!(3), &Value::Null));
    assert_eq!(model["replayDeterminism"], Value::Null);
    let second = self::host(2).await;
    let document = second.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(document["multiAgent"]["executionModel"]["crossHostCausation"], Value::Null);
}

/// M-90, M-92: the host says who it is, and nothing that happens here is said to come from elsewhere.
#[tokio::test(start_paused = true)]
async fn m90_causes_of_this_host_name_no_other() {
    let host = host(3).await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    let causation = &document["multiAgent"]["executionModel"]["crossHostCausation"];
    assert_eq!(causation["ancestryEndpointSupported"], true);
    let mut crew =
        workflow("crew", &[("boss", "core.orchestrator.supervisor"), ("work", "core.dispatch")]);
    let plan = json!([{ "kind": "next-worker", "nextWorkerIds": ["noop"] }]);
    crew["nodes"][0]["config"] = json!({ "mockDispatchPlan": plan });
    let stored = host.post("/v1/host/callboard/workflows", &crew).send().await;
    assert_eq!(stored.status, 201, "{stored:?}");
    let run = host.run("crew", json!({})).await;
    let events = host.end_of(&run).await;
    assert!(!json!(events).to_string().contains("causationHostId"), "{events:?}");
    let dispatched = events.iter().find(|event| event["type"] == "node.dispatched");
    let child = &dispatched.expect("a child")["payload"]["childRunId"];
    let path = format!("/v1/runs/{}/ancestry", child.as_str().expect("an id"));
    let ancestry = host.get(&path).send().await.json;
    assert_eq!(ancestry["hostId"], causation["hostId"]);
    let parent = json!({ "runId": run, "hostId": causation["hostId"], "cause": "core.dispatch" });
    assert_eq!(ancestry["parent"], parent);
    let top = host.get(&format!("/v1/runs/{run}/ancestry")).send().await.json;
    assert_eq!(top["parent"], Value::Null);
}

/// S-18, M-93, M-94.
#[tokio::test(start_paused = true)]
async fn s18_what_a_child_leaves_is_attested_and_merged_with_consent() {
    let host = host(3).await;
    let attest = async |body: Value| {
        let reply = host.post(ATTEST, &body).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json
    };
    let outputs = json!({ "report": "done", "score": 0.9, "tags": ["a", "b"] });
    let shown =
        attest(json!({ "childOutputs": outputs, "outputAttestation": { "checksum": true } })).await;
    let vector = "63a0014fbc71ddd0e41e568822b956dc0e1e22c1c0bdccdd64dc86d38538d55a";
    assert_eq!(shown["attestation"], json!({ "checksum": vector, "algorithm": "sha256" }));
    assert_eq!((&shown["merged"], &shown["mergedValues"]), (&json!(true), &outputs));
    for (action, merged) in [
        (json!("accept"), json!({ "report": "done" })),
        (
            json!({ "action": "edit-accept", "editedArtifactData": { "report": "better" } }),
            json!({ "report": "better" }),
        ),
        (json!("reject"), Value::Null),
        (Value::Null, Value::Null),
    ] {
        let mut body = json!({ "childOutputs": { "report": "done" },
            "outputAttestation": { "requireApproval": true, "checksum": true } });
        if !action.is_null() {
            body["approvalAction"] = action.clone();
        }
        let shown = attest(body).await;
        assert_eq!(shown["merged"], !merged.is_null(), "{action}");
        assert_eq!(shown["mergedValues"], merged, "{action}");
        assert!(shown["attestation"]["checksum"].is_string(), "{action}");
        assert_eq!(shown["harvestedEvent"].is_null(), merged.is_null(), "{action}");
    }
    let wrong = json!({ "childOutputs": {}, "outputAttestation": { "algorithm": "md5" } });
    assert_eq!(host.post(ATTEST, &wrong).send().await.status, 400);
    let left = host.get("/v1/host/callboard/workflows").send().await.json.to_string();
    assert!(!left.contains("callboard-sample"), "{left}");
}
