//! The ledger of outward calls, and the doors of the suite that go with it.

use axum::http::Method;
use callboard_server::TestKeys;
use serde_json::{Value, json};

use super::{bare, check, refused, segment};
use crate::given::{LIVE, RIVAL, Reply, Setup, TEST, TestHost, TestSeams, workflow};
use crate::webhooks::signature;

const SEAMS: &str = "/conformance/seams/sample";

async fn open() -> TestHost {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    TestHost::of(setup).await
}

async fn ledger(host: &TestHost, run: &str) -> Vec<Value> {
    let reply = host.get(&format!("/runs/{}/effects", segment(run))).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    check::ledger(&reply.json);
    assert_eq!(reply.json["runId"], run);
    reply.json["effects"].as_array().cloned().expect("rows")
}

/// V-31, V-37: a call is in the ledger of the run that made it, and not in that of a replay.
#[tokio::test]
async fn each_attempt_of_a_call_is_a_row() {
    let host = TestHost::start().await;
    let definition = workflow("calling", &[("call", "core.conformance.side-effect")]);
    let put = host.call(Method::PUT, "/v1/host/callboard/workflows/calling").json(&definition);
    let stored = put.send().await;
    assert!(stored.status < 300, "{stored:?}");
    let run = host.second_run(json!({ "workflowId": "calling" })).await;
    host.second_end(&run).await;
    let rows = ledger(&host, &run).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (&rows[0]["nodeId"], &rows[0]["attempt"], &rows[0]["state"]),
        (&json!("call"), &json!(1), &json!("completed"))
    );
    assert_eq!(rows[0]["keying"], "activity-recipe");
    let forked = host.post(&format!("/runs/{}:fork", segment(&run)), &json!({ "mode": "replay" }));
    let forked = forked.send().await.text_at("runId");
    host.second_end(&forked).await;
    assert_eq!(ledger(&host, &forked).await, [Value::Null; 0], "a replay calls nobody");
    let idle = host.second_noop().await;
    assert_eq!(ledger(&host, &idle).await, [Value::Null; 0]);
    let path = format!("/runs/{}/effects", segment(&run));
    assert_eq!(refused(&host.get(&path).key(RIVAL).send().await), (403, "id_tenant_mismatch"));
    let unknown = host.get("/runs/acme~2Frun_00000000000000/effects").send().await;
    assert_eq!(refused(&unknown), (404, "not_found"));
    let first = host.get(&format!("/v1/runs/{}/effects", bare(&run))).key(LIVE).send().await;
    assert_eq!(first.refusal(), (404, "not_found"));
}

fn at(second: u32) -> String {
    format!("2026-01-15T10:00:0{second}.000Z")
}

/// A log as a host of the first major wrote it.
fn old_log() -> Value {
    json!([
        { "sequence": 0, "type": "run.started", "timestamp": at(0),
          "payload": { "workflowId": "noop", "inputs": {} } },
        { "sequence": 1, "type": "node.started", "timestamp": at(1),
          "payload": { "nodeId": "only", "typeId": "core.noop", "attempt": 0 } },
        { "sequence": 2, "type": "agent.toolCalled", "timestamp": at(2),
          "payload": { "nodeId": "only", "agentId": "a.b.c", "toolName": "t", "callId": "c" } },
        { "sequence": 3, "type": "node.completed", "timestamp": at(3),
          "payload": { "nodeId": "only", "outputs": {} } },
        { "sequence": 4, "type": "run.completed", "timestamp": at(4), "payload": { "outputs": {} } },
    ])
}

async fn seed(host: &TestHost, status: &str, events: &Value) -> Reply {
    let body = json!({ "eventLogSchemaVersion": 2, "status": status, "events": events });
    host.post(&format!("{SEAMS}/event-log/seed"), &body).key(TEST).send().await
}

/// V-38, V-39; seams: fork-a-v1-run. V-27: the era of an old run stays.
#[tokio::test]
async fn a_log_of_the_first_major_is_read_and_forked_in_the_words_of_the_second() {
    let host = open().await;
    let seeded = seed(&host, "completed", &old_log()).await;
    assert_eq!(seeded.status, 201, "{seeded:?}");
    let run = seeded.text_at("runId");
    let told = host.second_end_as(TEST, &run).await;
    let names: Vec<&str> = told.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(
        names,
        ["run.started", "node.started", "agent.tool-called", "node.completed", "run.completed"]
    );
    assert_eq!(told[2]["timestamp"], at(2));
    let legacy = &told[0]["payload"]["owner"]["subject"];
    assert_eq!(
        (&legacy["issuer"], &legacy["subjectId"]),
        (&json!("urn:openwop:legacy"), &json!("unknown"))
    );
    let snapshot = host.get(&format!("/runs/{}", segment(&run))).key(TEST).send().await;
    check::snapshot(&snapshot.json);
    assert_eq!(
        (&snapshot.json["eventLogSchemaVersion"], &snapshot.json["status"]),
        (&json!(2), &json!("completed"))
    );
    let fork = json!({ "mode": "replay", "fromSeq": 4 });
    let forked = host.post(&format!("/runs/{}:fork", segment(&run)), &fork).key(TEST).send().await;
    assert_eq!(forked.status, 201, "{forked:?}");
    let forked = forked.text_at("runId");
    let again = host.second_end_as(TEST, &forked).await;
    for (copy, source) in again.iter().zip(&told).take(4) {
        for member in ["type", "sequence", "payload"] {
            assert_eq!(copy[member], source[member], "{member} of {}", source["sequence"]);
        }
    }
    let snapshot = host.get(&format!("/runs/{}", segment(&forked))).key(TEST).send().await;
    assert_eq!(snapshot.json["eventLogSchemaVersion"], 3, "a fork is made now");
}

/// V-38, V-23: a log that says something else is not kept, and a type that nobody knows is not passed on.
#[tokio::test]
async fn a_seed_must_agree_with_its_status_and_its_types_with_the_codemap() {
    let host = open().await;
    for (status, events) in [
        ("running", old_log()),
        ("completed", json!([])),
        ("completed", json!([{ "sequence": 1, "type": "run.started", "payload": {} }])),
    ] {
        assert_eq!(seed(&host, status, &events).await.status, 400, "{status} {events}");
    }
    let unmapped = json!([
        { "sequence": 0, "type": "run.started", "payload": { "workflowId": "noop", "inputs": {} } },
        { "sequence": 1, "type": "node.danced", "payload": {} },
        { "sequence": 2, "type": "run.completed", "payload": { "outputs": {} } },
    ]);
    let unmapped = seed(&host, "completed", &unmapped).await;
    assert_eq!(unmapped.status, 201, "{unmapped:?}");
    let path = format!("/runs/{}/events/poll?timeout=1", segment(&unmapped.text_at("runId")));
    assert_eq!(refused(&host.get(&path).key(TEST).send().await), (500, "event_type_unmapped"));
}

/// V-38; seams: v1-signed-webhook-accepted.
#[tokio::test]
async fn a_delivery_is_taken_by_either_spelling_of_its_headers() {
    let host = open().await;
    let document = host.get("/.well-known/openwop").header("openwop-version", "2.0").send().await;
    assert_eq!(document.json["conformance"]["seamsProfile"], "openwop-conformance-seams-v2");
    let now = host.now().as_millis().div_euclid(1_000).to_string();
    let (secret, body) = ("geheim", "{\"runId\":\"x\"}");
    let signature = signature(secret, &now, body.as_bytes());
    let receive = |family: &str, body: &str| {
        let headers = json!({
            format!("{family}Timestamp"): now, format!("{family}Signature"): signature,
            format!("{family}Signature-Algorithm"): "v1",
        });
        let sent = json!({ "secret": secret, "headers": headers, "body": body });
        host.post(&format!("{SEAMS}/webhooks/receive"), &sent).key(TEST)
    };
    for family in ["OpenWOP-", "X-openwop-"] {
        assert_eq!(receive(family, body).send().await.json, json!({ "accepted": true }));
        let tampered = receive(family, "{\"runId\":\"y\"}").send().await.json;
        assert_eq!(tampered, json!({ "accepted": false, "reason": "signature_invalid" }));
    }
    let plain = TestHost::start().await;
    let document = plain.get("/.well-known/openwop").header("openwop-version", "2.0").send().await;
    assert_eq!(document.json.get("conformance"), None);
}
