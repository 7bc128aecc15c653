//! Refusals and repetitions in the second major.

use serde_json::json;

use super::{KEY, refused, segment};
use crate::given::{CANCELLER, TestHost};

/// V-32.
#[tokio::test]
async fn refusals_have_codes_of_the_second_major() {
    let host = TestHost::start().await;
    for (path, expected) in [
        ("/agents/none", (404, "not_found")),
        ("/prompts/none", (404, "not_found")),
        ("/workflows/none", (404, "not_found")),
        ("/tools/none", (404, "not_found")),
        ("/runs?limit=x", (400, "validation_error")),
        ("/nowhere", (404, "not_found")),
    ] {
        assert_eq!(refused(&host.get(path).send().await), expected, "{path}");
    }
    assert_eq!(refused(&host.get("/runs").key("cb_nobody").send().await), (401, "unauthenticated"));
    assert_eq!(refused(&host.get("/runs").key(CANCELLER).send().await), (403, "forbidden"));
    let gated = host.post("/runs", &json!({ "workflowId": "gated" })).send().await;
    assert_eq!(refused(&gated), (422, "capability_required"));
    let failed = host.second_run(json!({ "workflowId": "fail" })).await;
    let events = host.second_end(&failed).await;
    let end = &events.last().expect("events")["payload"]["error"];
    assert!(end["code"].as_str().is_some_and(|code| code.starts_with("callboard.")), "{end}");
    let snapshot = host.second_snapshot(&failed).await;
    assert_eq!(snapshot["error"]["code"], end["code"]);
    let old = host.get(&format!("/v1/runs/{}", super::bare(&failed))).send().await.json;
    assert_eq!(
        json!(format!("callboard.{}", old["error"]["code"].as_str().expect("a code"))),
        end["code"]
    );
}

/// V-30; floor: idempotency-key-grammar.
#[tokio::test]
async fn a_repetition_gets_what_the_first_came_to_in_its_own_major() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop" });
    let post = |key: &str| host.post("/runs", &body).header("idempotency-key", key);
    for wrong in
        ["short", "012345678901234567890", "has spaces in it, which is wrong", &"x".repeat(129)]
    {
        assert_eq!(refused(&post(wrong).send().await), (400, "idempotency_key_invalid"), "{wrong}");
    }
    assert_eq!(host.get("/runs").send().await.json["runs"], json!([]));
    let first = post(KEY).send().await;
    assert_eq!((first.status, first.header("openwop-idempotent-replay")), (201, ""));
    let again = post(KEY).send().await;
    assert_eq!((again.status, again.header("openwop-idempotent-replay")), (201, "true"));
    assert_eq!(again.json, first.json);
    let other = host.post("/runs", &json!({ "workflowId": "chain" }));
    let other = other.header("idempotency-key", KEY).send().await;
    assert_eq!(refused(&other), (409, "idempotency_key_mismatch"));
    let old = host.post("/v1/runs", &body).header("idempotency-key", KEY).send().await;
    assert_eq!((old.status, old.header("openwop-idempotent-replay")), (201, ""));
    assert_ne!(old.json["runId"], first.json["runId"]);
    let short = host.post("/v1/runs", &body).header("idempotency-key", "short").send().await;
    assert_eq!(short.status, 201);
    // Kept refusals are told in the words of the major, too.
    let path = format!("/runs/{}/cancel", segment(&first.text_at("runId")));
    host.second_end(&first.text_at("runId")).await;
    for replay in ["", "true"] {
        let reply = host.post(&path, &json!({})).header("idempotency-key", KEY).send().await;
        assert_eq!(refused(&reply), (409, "run_terminal"));
        assert_eq!(reply.header("openwop-idempotent-replay"), replay);
    }
    // What can be mended is asked anew.
    for _ in 0..2 {
        let wrong = host.post("/runs", &json!({ "workflowId": "noop", "x": 1 }));
        let wrong = wrong.header("idempotency-key", "another-key-of-22-chars").send().await;
        assert_eq!(refused(&wrong), (400, "validation_error"));
        assert_eq!(wrong.header("openwop-idempotent-replay"), "");
    }
}
