//! Memory that becomes less: what is left of it, what is told of it, and the doors of the suite (S-29).

use serde_json::{Value, json};

use super::{MEMORY, contents, memory_node, register, remember, seams};
use crate::given::{RIVAL, TestHost};

async fn play(host: &TestHost, id: &str, config: Value) -> Vec<Value> {
    register(host, &memory_node(id, config)).await;
    let run = host.run(id, json!({})).await;
    host.end_of(&run).await
}

fn told<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    let event = events.iter().find(|event| event["type"] == kind);
    &event.unwrap_or_else(|| panic!("no {kind}: {events:#?}"))["payload"]
}

/// M-63: redaction, provenance, event; and who wrote what stays readable.
#[tokio::test(start_paused = true)]
async fn m63_what_is_compacted_keeps_where_it_came_from() {
    let host = TestHost::start().await;
    let (_, first) = remember(&host, "one", &["a"]).await;
    let (_, second) = remember(&host, "two", &["b"]).await;
    remember(&host, "three", &[]).await;
    let config = json!({ "memoryAction": "compact", "memoryRef": "desk", "keep": 1 });
    let events = play(&host, "tidy", config).await;
    let compacted = told(&events, "memory.compacted");
    let ids = json!([first["id"], second["id"]]);
    assert_eq!((&compacted["sourceIds"], &compacted["sourceCount"]), (&ids, &json!(2)));
    assert_eq!(compacted["trigger"], "client-requested");
    assert_eq!(compacted["distillation"], Value::Null);
    let listed = host.get(MEMORY).send().await.json["entries"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let output = &listed[0];
    assert_eq!(compacted["outputId"], output["id"]);
    let text = output["content"].as_str().expect("content");
    assert_eq!(compacted["byteSize"], text.len());
    assert!(text.contains(": one\n") && text.ends_with(": two"), "{text}");
    let run = &output["author"]["runId"];
    let tags = json!([format!("compacted-from:{}", run.as_str().expect("a run")), "a", "b"]);
    assert_eq!((&output["tags"], &output["sources"]), (&tags, &ids));
    // One transaction: what is written is told of, and nothing of what it says.
    assert_eq!(told(&events, "memory.written")["memoryId"], output["id"]);
    assert!(!json!(events).to_string().contains(": one"), "{events:?}");
    // The sources are out of sight and not out of the world.
    let id = first["id"].as_str().expect("an id");
    assert_eq!(host.get(&format!("{MEMORY}/{id}/history")).send().await.status, 200);
    assert_eq!(contents(&host, "?text=three").await, ["three"]);
    assert_eq!(contents(&host, "?tag=a").await.len(), 1);
    let restore = format!("{MEMORY}/{id}/restore");
    assert_eq!(host.post(&restore, &json!({ "version": 1 })).send().await.status, 200);
    assert!(contents(&host, "").await.contains(&"one".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn nobody_writes_nodes_of_the_hosts_own() {
    let host = TestHost::start().await;
    let mut definition = memory_node("forged", json!({ "memoryAction": "compact" }));
    definition["nodes"][0]["typeId"] = json!("callboard.memory");
    let reply = host.post("/v1/host/callboard/workflows", &definition).send().await;
    assert!(reply.status == 400 || reply.status == 422, "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_tidies_must_know_how() {
    let host = TestHost::start().await;
    for (id, config) in [
        ("keep", json!({ "memoryAction": "compact", "keep": -1 })),
        ("budget", json!({ "memoryAction": "distill", "tokenBudget": 0 })),
        ("text", json!({ "memoryAction": "distill", "tokenBudget": "much" })),
    ] {
        let events = play(&host, id, config).await;
        assert_eq!(told(&events, "node.failed")["error"]["code"], "validation_error", "{id}");
    }
}

/// S-29, the first leg: within the budget, the same every time, and nothing at all beyond it.
#[tokio::test(start_paused = true)]
async fn s29_a_distillation_keeps_to_its_budget() {
    let host = seams().await;
    let path = "/v1/host/sample/memory/distill";
    let body = json!({ "memoryRef": "desk", "tokenBudget": 120, "includeSecretCanary": true,
        "sources": ["the first note", { "content": "the second note" }] });
    let mut sums = Vec::new();
    for _ in 0..2 {
        let reply = host.post(path, &body).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let event = &reply.json["event"];
        assert_eq!((&event["sourceCount"], &event["memoryRef"]), (&json!(3), &json!("desk")));
        let spent = &event["distillation"];
        assert_eq!((&spent["tokenBudget"], &spent["indexUpdated"]), (&json!(120), &json!(false)));
        assert!(spent["tokensUsed"].as_u64() <= Some(120), "{event}");
        assert_eq!(reply.json["secretLeaked"], false);
        sums.push(reply.json["archiveChecksum"].clone());
    }
    assert!(sums[0].is_string() && sums[0] == sums[1], "{sums:?}");
    let before = contents(&host, "").await;
    let tight = json!({ "memoryRef": "desk", "tokenBudget": 5 });
    let refused = host.post(path, &tight).send().await;
    assert_eq!((refused.status, refused.text_at("error").as_str()), (422, "token_budget_exceeded"));
    // Its sources were written, and stand there as they were.
    assert_eq!(contents(&host, "").await.len(), before.len() + 3);
    let usual = host.post(path, &json!({ "memoryRef": "desk" })).send().await;
    assert_eq!(usual.json["event"]["distillation"]["tokenBudget"], 262_144);
}

/// M-64, S-29, the second leg.
#[tokio::test(start_paused = true)]
async fn s29_a_second_consolidation_finds_nothing_to_do() {
    let host = seams().await;
    let path = "/v1/host/sample/memory/consolidate";
    let counts = async |body: Value| {
        let reply = host.post(path, &body).send().await;
        assert_eq!((reply.status, &reply.json["secretLeaked"]), (200, &json!(false)), "{reply:?}");
        let event = reply.json["event"].clone();
        (event["inputCount"].as_u64(), event["outputCount"].as_u64(), event["mergedIds"].clone())
    };
    let (before, after, merged) = counts(json!({ "memoryRef": "desk" })).await;
    assert_eq!((before, after, merged.as_array().map(Vec::len)), (Some(3), Some(2), Some(1)));
    let again = counts(json!({ "memoryRef": "desk" })).await;
    assert_eq!(again, (Some(2), Some(2), Value::Null));
    let canary = json!({ "memoryRef": "desk", "includeSecretCanary": true });
    assert_eq!(counts(canary).await, (Some(3), Some(3), Value::Null));
    let theirs = host.get(MEMORY).key(RIVAL).send().await.json;
    assert_eq!(theirs["entries"], json!([]));
}

/// M-59, M-75: what was tidied once is told again by a replay, and done by nobody.
#[tokio::test(start_paused = true)]
async fn a_replay_tells_of_a_compaction_and_compacts_nothing() {
    let host = TestHost::start().await;
    remember(&host, "one", &[]).await;
    remember(&host, "two", &[]).await;
    let config = json!({ "memoryAction": "compact", "memoryRef": "desk", "keep": 0 });
    register(&host, &memory_node("tidy", config)).await;
    let run = host.run("tidy", json!({})).await;
    let events = host.end_of(&run).await;
    let before = contents(&host, "").await;
    let body = json!({ "mode": "replay", "fromSeq": 0 });
    let replay = host.post(&format!("/v1/runs/{run}:fork"), &body).send().await.text_at("runId");
    let replayed = host.end_of(&replay).await;
    assert_eq!(told(&replayed, "memory.compacted"), told(&events, "memory.compacted"));
    assert_eq!(contents(&host, "").await, before);
}

/// S-29, the third leg: a promise is told of once, without its words, and a replay tells of it and fires nothing.
#[tokio::test(start_paused = true)]
async fn s29_a_commitment_fires_once() {
    let host = seams().await;
    let path = "/v1/host/sample/commitment/fire";
    let body = json!({ "memoryRef": "desk", "condition": "time", "includeIntentionCanary": true });
    let reply = host.post(path, &body).send().await;
    assert_eq!((reply.status, &reply.json["fireCount"]), (200, &json!(1)), "{reply:?}");
    let event = &reply.json["event"];
    assert_eq!((&event["memoryRef"], &event["condition"]), (&json!("desk"), &json!("time")));
    assert!(event["commitmentId"].is_string() && event["memoryId"].is_string(), "{event}");
    let canary = reply.json["intentionCanary"].as_str().expect("a canary");
    assert!(!event.to_string().contains(canary), "{event}");
    let listed = host.get("/v1/host/callboard/runs?workflowId=callboard-commitment").send().await;
    let runs = listed.json["runs"].as_array().expect("runs").clone();
    assert_eq!(runs.len(), 1);
    let run = runs[0]["runId"].as_str().expect("an id");
    let replay = json!({ "mode": "replay", "fromSeq": 0 });
    let replay = host.post(&format!("/v1/runs/{run}:fork"), &replay).send().await.text_at("runId");
    assert_eq!(told(&host.end_of(&replay).await, "commitment.fired"), event);
    let theirs = host.get("/v1/host/callboard/runs").key(RIVAL).send().await.json;
    assert_eq!(theirs["runs"], json!([]));
    let other = json!({ "memoryRef": "desk", "condition": "weather" });
    assert_eq!(host.post(path, &other).send().await.status, 400);
    for (id, odd) in [
        ("odd", json!({ "memoryAction": "write", "dueAt": "soon" })),
        ("both", json!({ "memoryAction": "write", "dueAt": "2031-01-01T00:00:00Z", "dueOn": "x" })),
    ] {
        let events = play(&host, id, odd).await;
        assert_eq!(told(&events, "node.failed")["error"]["code"], "validation_error");
    }
}

/// RFC 0068 §D: what waits for a heartbeat is told of once, when that sees a change.
#[tokio::test(start_paused = true)]
async fn s29_a_commitment_fires_when_a_heartbeat_sees_a_change() {
    let host = seams().await;
    let path = "/v1/host/sample/commitment/fire";
    let body =
        json!({ "memoryRef": "desk", "condition": "predicate", "includeIntentionCanary": true });
    let reply = host.post(path, &body).send().await;
    assert_eq!((reply.status, &reply.json["fireCount"]), (200, &json!(1)), "{reply:?}");
    let event = &reply.json["event"];
    assert_eq!((&event["memoryRef"], &event["condition"]), (&json!("desk"), &json!("predicate")));
    let canary = reply.json["intentionCanary"].as_str().expect("a canary");
    assert!(!event.to_string().contains(canary), "{event}");
}

/// S-29: what a memory is called is its owner's business.
#[tokio::test(start_paused = true)]
async fn s29_a_memory_may_be_called_like_an_address() {
    let host = seams().await;
    for (path, body) in [
        ("memory/distill", json!({ "memoryRef": "mem://conformance/distill" })),
        ("memory/consolidate", json!({ "memoryRef": "mem://conformance/consolidation" })),
        (
            "commitment/fire",
            json!({ "memoryRef": "mem://conformance/commitments", "condition": "time" }),
        ),
    ] {
        let reply = host.post(&format!("/v1/host/sample/{path}"), &body).send().await;
        assert_eq!((reply.status, &reply.json["event"]["memoryRef"]), (200, &body["memoryRef"]));
    }
}

/// M-63: what other redactors have marked is marked as the protocol does it, also in what is made of it.
#[tokio::test(start_paused = true)]
async fn m63_the_suite_fills_a_memory_and_has_it_put_together() {
    let host = seams().await;
    let (seed, compact) = ("/v1/test/memory/seed", "/v1/test/memory/compact");
    let place = json!({ "memoryRef": "mem_tenant:default_agent:desk_longTerm" });
    let mut entries = place.clone();
    entries["entries"] = json!([
        { "id": "one", "content": "User confirmed: [BYOK:hk_live_canary_42]", "tags": ["a"] },
        { "id": "two", "content": "Resolved <REDACTED:db-prod-creds> outage." },
    ]);
    assert_eq!(host.post(compact, &json!({})).send().await.status, 400);
    assert_eq!(host.post(compact, &place).send().await.refusal(), (400, "invalid_argument"));
    assert_eq!(host.post(seed, &entries).send().await.status, 201);
    let reply = host.post(compact, &place).send().await;
    assert_eq!((reply.status, &reply.json["type"]), (200, &json!("memory.compacted")));
    let (told, content) = (&reply.json["payload"], reply.text_at("outputContent"));
    assert_eq!((&told["sourceCount"], &told["memoryRef"]), (&json!(2), &place["memoryRef"]));
    assert_eq!(told["byteSize"], content.len());
    assert!(content.contains("[REDACTED:byok]") && !content.contains("canary"), "{content}");
    assert!(content.contains("[REDACTED:db-prod-creds]") && !content.contains('<'), "{content}");
    let id = told["outputId"].as_str().expect("an id");
    let entry = host.get(&format!("{MEMORY}/{id}")).send().await.json;
    let provenance = format!("compacted-from:{}", reply.text_at("runId"));
    assert_eq!(entry["tags"], json!([provenance, "a"]));
    assert_eq!(host.get(&format!("{MEMORY}/{id}")).key(RIVAL).send().await.status, 404);
}
