//! Memory over HTTP: what people see of it, the protocol's fixtures, and forks that lost theirs.

mod upkeep;

use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{Fault, LIVE, READER, RIVAL, Setup, TEST, TestHost, TestSeams, workflow};
use crate::packs::{install, signed};

const MEMORY: &str = "/v1/host/callboard/memory";

fn memory_node(id: &str, config: Value) -> Value {
    let mut definition = workflow(id, &[("only", "core.identity")]);
    definition["nodes"][0]["config"] = config;
    definition
}

async fn register(host: &TestHost, definition: &Value) {
    let reply = host.post("/v1/host/callboard/workflows", definition).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

/// Runs a workflow that writes once, and answers the run and the entry.
async fn remember(host: &TestHost, content: &str, tags: &[&str]) -> (String, Value) {
    let action =
        json!({ "memoryAction": "write", "content": content, "tags": tags, "memoryRef": "desk" });
    let reply =
        host.post("/v1/host/callboard/workflows", &memory_node("remember", action)).send().await;
    assert!(reply.status == 201 || reply.status == 200, "{reply:?}");
    let run = host.run("remember", json!({})).await;
    host.end_of(&run).await;
    let entry = variables(host, &run).await["memoryReadback"].clone();
    assert_eq!(entry["content"], content);
    (run, entry)
}

async fn variables(host: &TestHost, run: &str) -> Value {
    let shown = host.get(&format!("/v1/runs/{run}")).send().await.json;
    assert_eq!(shown["status"], "completed", "{shown}");
    shown["variables"].clone()
}

async fn contents(host: &TestHost, query: &str) -> Vec<String> {
    let reply = host.get(&format!("{MEMORY}{query}")).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let entries = reply.json["entries"].as_array().expect("entries").clone();
    entries.iter().map(|entry| entry["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// M-50, M-54, M-58.
#[tokio::test(start_paused = true)]
async fn what_runs_remember_is_listed_read_and_searched() {
    let host = TestHost::start().await;
    let (run, entry) = remember(&host, "the invoice is paid", &["money", "a"]).await;
    remember(&host, "tea is cold", &["a"]).await;
    let events = host.end_of(&run).await;
    let written: Vec<&Value> = events.iter().filter(|it| it["type"] == "memory.written").collect();
    let told = json!({ "memoryRef": "desk", "memoryId": entry["id"], "nodeId": "only", "tags": ["money", "a"] });
    assert_eq!(written.iter().map(|it| &it["payload"]).collect::<Vec<_>>(), [&told]);

    assert_eq!(contents(&host, "").await, ["tea is cold", "the invoice is paid"]);
    assert_eq!(contents(&host, "?tag=money").await, ["the invoice is paid"]);
    assert_eq!(contents(&host, "?text=PAID%20invoice").await, ["the invoice is paid"]);
    assert_eq!(contents(&host, "?scopeId=desk&tag=a&text=tea").await, ["tea is cold"]);
    assert_eq!(contents(&host, "?scopeId=elsewhere").await, [""; 0]);
    let page = host.get(&format!("{MEMORY}?limit=1")).send().await.json;
    let next = page["nextCursor"].as_str().expect("a cursor");
    assert_eq!(contents(&host, &format!("?limit=1&cursor={next}")).await, ["the invoice is paid"]);
    for wrong in ["?limit=0", "?cursor=x", "?tags=a", "?tag=a&tag=b"] {
        assert_eq!(host.get(&format!("{MEMORY}{wrong}")).send().await.status, 400, "{wrong}");
    }

    let id = entry["id"].as_str().expect("an id");
    let read = host.get(&format!("{MEMORY}/{id}")).send().await.json;
    let author = json!({ "runId": run, "nodeId": "only" });
    assert_eq!((&read["author"], &read["version"]), (&author, &json!(1)));
    assert_eq!((&read["memoryRef"], &read["tags"]), (&json!("desk"), &json!(["money", "a"])));
}

/// R03, CTI-1: somebody else's entry and none look the same.
#[tokio::test(start_paused = true)]
async fn memory_is_its_tenants_own() {
    let host = TestHost::start().await;
    let (_, entry) = remember(&host, "ours", &[]).await;
    let id = entry["id"].as_str().expect("an id");
    for key in [RIVAL, TEST] {
        let listed = host.get(MEMORY).key(key).send().await;
        assert_eq!(listed.json["entries"], json!([]), "{key}");
        for (method, path, body) in [
            ("GET", format!("{MEMORY}/{id}"), None),
            ("GET", format!("{MEMORY}/{id}/history"), None),
            ("DELETE", format!("{MEMORY}/{id}"), None),
            ("POST", format!("{MEMORY}/{id}/restore"), Some(json!({ "version": 1 }))),
        ] {
            let ask = |path: &str| {
                let call = host.call(method.parse().expect("a method"), path).key(key);
                match &body {
                    Some(body) => call.json(body),
                    None => call,
                }
            };
            let theirs = ask(&path).send().await;
            let nobodys = ask(&path.replace(id, "mem_none")).send().await;
            assert_eq!(theirs.status, 404, "{method} {path}");
            assert_eq!(theirs.json, nobodys.json, "{method} {path}");
        }
    }
    let refused = host.call("DELETE".parse().expect("a method"), &format!("{MEMORY}/{id}"));
    assert_eq!(refused.key(READER).send().await.status, 403);
    assert_eq!(contents(&host, "").await, ["ours"]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_is_edited_by_who_has_read_its_newest_version() {
    let host = TestHost::start().await;
    let (_, entry) = remember(&host, "one", &["t"]).await;
    let path = format!("{MEMORY}/{}", entry["id"].as_str().expect("an id"));
    let edit = async |key: &'static str, content: &str, expected: u64| {
        let body = json!({ "content": content, "expectedVersion": expected });
        let call = host.call("PUT".parse().expect("a method"), &path).json(&body);
        call.key(key).send().await
    };
    let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH";
    let edited = edit(LIVE, &format!("two {key}"), 1).await;
    assert_eq!((edited.status, &edited.json["version"]), (200, &json!(2)), "{edited:?}");
    assert_eq!(edited.json["tags"], json!(["t"]));
    assert!(!edited.text_at("content").contains("sk-proj"), "prompts are made of it: {edited:?}");
    assert!(edited.json["author"]["principal"].is_string(), "{edited:?}");
    let late = edit(LIVE, "three", 1).await;
    assert_eq!((late.status, late.text_at("error").as_str()), (409, "memory_conflict"));
    assert_eq!(late.json["details"]["currentVersion"], 2);
    for (content, status) in [("", 400), (&*"x".repeat(300_000), 400), ("x", 200)] {
        assert_eq!(edit(LIVE, content, 2).await.status, status, "{} bytes", content.len());
    }
    assert_eq!(edit(READER, "x", 3).await.status, 403);
    assert_eq!(edit(RIVAL, "x", 3).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn an_old_version_comes_back_unless_somebody_was_faster() {
    let host = TestHost::start().await;
    let (_, entry) = remember(&host, "one", &["t"]).await;
    let id = entry["id"].as_str().expect("an id");
    let restore = format!("{MEMORY}/{id}/restore");
    let body = json!({ "version": 1, "expectedVersion": 1 });
    let restored = host.post(&restore, &body).send().await;
    assert_eq!(restored.status, 200, "{restored:?}");
    assert_eq!(
        (&restored.json["version"], &restored.json["previousVersion"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(restored.json["createdAt"], entry["createdAt"]);
    assert!(restored.json["author"]["principal"].is_string(), "{}", restored.json);

    let late = host.post(&restore, &body).send().await;
    assert_eq!((late.status, late.text_at("error").as_str()), (409, "memory_conflict"));
    assert_eq!(late.json["details"]["currentVersion"], 2);
    let unknown = host.post(&restore, &json!({ "version": 9 })).send().await;
    assert_eq!((unknown.status, unknown.text_at("error").as_str()), (400, "validation_error"));
    for wrong in [json!({}), json!({ "version": 1, "force": true }), json!({ "version": -1 })] {
        assert_eq!(host.post(&restore, &wrong).send().await.status, 400, "{wrong}");
    }

    let history = host.get(&format!("{MEMORY}/{id}/history")).send().await.json;
    let versions = history["versions"].as_array().expect("versions");
    let numbers: Vec<&Value> = versions.iter().map(|version| &version["version"]).collect();
    assert_eq!(numbers, [2, 1]);
    assert!(versions[1]["author"]["runId"].is_string());
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_gone_with_its_history() {
    let host = TestHost::start().await;
    let (run, entry) = remember(&host, "one", &[]).await;
    let id = entry["id"].as_str().expect("an id");
    let path = format!("{MEMORY}/{id}");
    let delete = || host.call("DELETE".parse().expect("a method"), &path).send();
    assert_eq!(delete().await.status, 204);
    assert_eq!(delete().await.status, 404);
    assert_eq!(host.get(&path).send().await.status, 404);
    assert_eq!(host.get(&format!("{path}/history")).send().await.status, 404);
    // Outside of replay: the log still says that something was remembered.
    let body = json!({ "mode": "replay" });
    let replay = host.post(&format!("/v1/runs/{run}:fork"), &body).send().await.text_at("runId");
    let events = host.end_of(&replay).await;
    assert!(events.iter().any(|event| event["payload"]["memoryId"] == entry["id"]));
    assert_eq!(contents(&host, "").await, [""; 0]);
}

/// M-51, M-52, M-57, S-27: the fixtures as the suite judges them, and refs that nobody may use.
#[tokio::test(start_paused = true)]
async fn s27_the_probes_of_the_suite_come_out_right() {
    let host = TestHost::start().await;
    for (id, config) in [
        ("ttl", json!({ "memoryAction": "ttl-probe" })),
        (
            "tenants",
            json!({ "memoryAction": "cross-tenant-probe", "probeMemoryRef": "rival/secrets" }),
        ),
    ] {
        register(&host, &memory_node(id, config)).await;
    }
    let theirs =
        memory_node("theirs", json!({ "memoryAction": "write", "memoryRef": "rival/secrets" }));
    let stored = host.post("/v1/host/callboard/workflows", &theirs).key(RIVAL).send().await;
    assert_eq!(stored.status, 201);
    let body = json!({ "workflowId": "theirs" });
    let foreign = host.post("/v1/runs", &body).key(RIVAL).send().await;
    assert_eq!(foreign.status, 201, "{foreign:?}");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(
        host.get(MEMORY).key(RIVAL).send().await.json["entries"].as_array().map(Vec::len),
        Some(1)
    );

    let run = host.run("ttl", json!({})).await;
    host.end_of(&run).await;
    let list = variables(&host, &run).await["memoryList"].clone();
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert!(list[0]["expiresAt"].is_string());

    let run = host.run("tenants", json!({})).await;
    host.end_of(&run).await;
    let probed = variables(&host, &run).await;
    assert_eq!(probed["crossTenantProbe"], json!([]));
    let own = probed["ownerProbe"].as_array().expect("an array");
    assert!(own.iter().any(|entry| entry["id"] == probed["ownerEntryId"]), "{probed}");

    for (index, wrong) in
        ["../default", "a/../../b", "/etc/passwd", "a\0b", &"x".repeat(257)].iter().enumerate()
    {
        let id = format!("wrong{index}");
        let list = json!({ "memoryAction": "list", "memoryRef": wrong });
        register(&host, &memory_node(&id, list)).await;
        let run = host.run(&id, json!({})).await;
        host.end_of(&run).await;
        assert_eq!(variables(&host, &run).await["memoryList"], json!([]), "{wrong:?}");
        let write = json!({ "memoryAction": "write", "memoryRef": wrong });
        register(&host, &memory_node(&format!("{id}w"), write)).await;
        let run = host.run(&format!("{id}w"), json!({})).await;
        let events = host.end_of(&run).await;
        let failed = events.iter().find(|event| event["type"] == "node.failed").expect("a failure");
        assert_eq!(failed["payload"]["error"]["code"], "validation_error", "{wrong:?}");
    }
}

/// M-53: what a run resolved does not get into memory, in content or in tags.
#[tokio::test(start_paused = true)]
async fn m53_a_secret_is_not_remembered() {
    let host = TestHost::start().await;
    let value = "hunter2-hunter2-hunter2";
    let put = host.call("PUT".parse().expect("a method"), "/v1/host/callboard/secrets/my-key");
    assert_eq!(put.json(&json!({ "value": value })).send().await.status, 201);
    let probe = json!({
        "memoryAction": "redaction-probe", "byokSecretId": "my-key",
        "tags": [format!("key:{value}")], "memoryRef": format!("desk/{value}"),
    });
    register(&host, &memory_node("leak", probe)).await;
    let run = host.run("leak", json!({})).await;
    let events = host.end_of(&run).await;
    let readback = variables(&host, &run).await["memoryReadback"].clone();
    assert_eq!(readback["content"], "the key is [REDACTED:my-key]");
    assert_eq!(readback["tags"], json!(["key:[REDACTED:my-key]"]));
    let listed = host.get(MEMORY).send().await.json;
    for shown in [json!(events).to_string(), listed.to_string()] {
        assert!(!shown.contains(value), "{shown}");
    }
}

/// M-56: an entry that is too large, or lives for no time at all, is refused.
#[tokio::test(start_paused = true)]
async fn m56_a_wrong_entry_is_a_validation_error() {
    let host = TestHost::start().await;
    for (id, extra) in [
        ("large", json!({ "content": "x".repeat(65_537) })),
        ("dead", json!({ "ttlSeconds": 0 })),
        ("odd", json!({ "ttlSeconds": "soon" })),
    ] {
        let mut config = extra;
        config["memoryAction"] = json!("write");
        register(&host, &memory_node(id, config)).await;
        let run = host.run(id, json!({})).await;
        let events = host.end_of(&run).await;
        let failed = events.iter().find(|event| event["type"] == "node.failed").expect("a failure");
        assert_eq!(failed["payload"]["error"]["code"], "validation_error", "{id}");
        assert!(!events.iter().any(|event| event["type"] == "memory.written"), "{id}");
    }
}

async fn seams() -> TestHost {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    TestHost::of(setup).await
}

/// M-71, S-26: the refusal, to the letter, and only after what is wrong anyway.
#[tokio::test(start_paused = true)]
async fn s26_a_fork_without_its_memory_is_refused() {
    let host = seams().await;
    let (run, _) = remember(&host, "one", &[]).await;
    let expire = "/v1/host/sample/test/memory/expire-snapshots";
    let fork = format!("/v1/runs/{run}:fork");
    let replay = json!({ "mode": "replay", "fromSeq": 0 });
    assert_eq!(host.post(&fork, &replay).send().await.status, 201);
    assert_eq!(host.post(expire, &json!({ "runId": "run_none" })).send().await.status, 404);
    assert_eq!(host.post(expire, &json!({ "runId": run })).key(RIVAL).send().await.status, 404);
    assert_eq!(host.post(expire, &json!({ "runId": run })).send().await.status, 204);
    let refused = host.post(&fork, &replay).send().await;
    assert_eq!(refused.status, 422);
    let message = refused.text_at("message");
    let envelope = json!({
        "error": "replay_memory_snapshot_unavailable",
        "message": message,
        "details": { "fromSeq": 0, "sourceRunId": run, "reason": "retention_expired" },
    });
    assert_eq!(refused.json, envelope);
    let beyond = host.post(&fork, &json!({ "mode": "replay", "fromSeq": 999 })).send().await;
    assert_eq!(beyond.text_at("error"), "invalid_from_seq");
    assert_eq!(host.post(&fork, &replay).key(RIVAL).send().await.status, 404);
}

/// M-71: the other reason.
#[tokio::test(start_paused = true)]
async fn m71_memory_that_cannot_be_read_refuses_forks() {
    let host = TestHost::start().await;
    let (run, _) = remember(&host, "one", &[]).await;
    host.store.fail(Fault::Damaged);
    let body = json!({ "mode": "branch", "fromSeq": 1 });
    let refused = host.post(&format!("/v1/runs/{run}:fork"), &body).key(LIVE).send().await;
    host.store.fail(Fault::None);
    assert_eq!(refused.status, 422, "{refused:?}");
    let details = json!({ "fromSeq": 1, "sourceRunId": run, "reason": "event_log_unavailable" });
    assert_eq!(refused.json["details"], details);
    assert!(!refused.json.to_string().contains("secret-table"), "{}", refused.json);
}

/// M-60: RFC 0039's cross-run lifetime.
#[tokio::test(start_paused = true)]
async fn m60_a_childs_entry_lives_from_when_the_child_wrote_it() {
    let host = seams().await;
    let path = "/v1/host/sample/test/memory/cross-run-ttl-roundtrip";
    let body = json!({ "ttlSeconds": 3600, "childWriteOffsetMs": 10_000 });
    let reply = host.post(path, &body).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let time = |value: &Value| {
        let text = value.as_str().unwrap_or_else(|| panic!("{reply:?}"));
        text.parse::<callboard_protocol::Timestamp>().expect("a time").as_millis()
    };
    let (wrote, began) = (time(&reply.json["childWroteAt"]), time(&reply.json["parentStartedAt"]));
    assert!(wrote - began >= 10_000, "{reply:?}");
    assert_eq!(time(&reply.json["entry"]["expiresAt"]), wrote + 3_600_000);
    let far = json!({ "ttlSeconds": 1, "childWriteOffsetMs": 60_000 });
    assert_eq!(host.post(path, &far).send().await.status, 400);
}

/// M-59, S-28: a replay tells every id again, and no other.
#[tokio::test(start_paused = true)]
async fn s28_a_replay_tells_the_ids_that_were_told() {
    let host = TestHost::start().await;
    let (run, entry) = remember(&host, "one", &[]).await;
    let body = json!({ "mode": "replay", "fromSeq": 0 });
    let replay = host.post(&format!("/v1/runs/{run}:fork"), &body).send().await.text_at("runId");
    let written: Vec<Value> = host
        .end_of(&replay)
        .await
        .into_iter()
        .filter(|event| event["type"] == "memory.written")
        .map(|event| event["payload"]["memoryId"].clone())
        .collect();
    assert_eq!(written, [entry["id"].clone()]);
    assert_eq!(contents(&host, "").await, ["one"]);
    // A run that writes nothing tells of nothing.
    let noop = host.run("noop", json!({})).await;
    let events = host.end_of(&noop).await;
    assert!(!events.iter().any(|event| event["type"] == "memory.written"));
}

#[tokio::test]
async fn discovery_says_what_memory_does() {
    let host = TestHost::start().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    let memory = json!({
        "supported": true, "maxEntrySizeBytes": 65_536, "ttlSupported": true,
        "search": { "supported": true, "modes": ["filter"] },
        "retention": { "ttl": true, "forget": true },
        "attribution": { "supported": true, "emitsWriteEvents": true },
        "compaction": { "supported": true, "trigger": "both", "maxOutputBytes": 65_536 },
        "distillation": { "supported": true, "maxTokenBudget": 262_144, "scheduled": true,
            "indexEmitted": false, "tokenizerName": "utf8-bytes-div-4" },
    });
    let consolidation = json!({ "supported": true, "schedule": "host-managed" });
    assert_eq!(document["agents"]["memoryConsolidation"], consolidation);
    assert_eq!(document["memory"], memory);
    assert_eq!(document["capabilities"]["memory"], memory);
    assert_eq!(document["agents"]["memoryBackends"], json!(["long-term"]));
}

/// An agent that asks for a long memory keeps what its runs found, for itself and its tenant.
#[tokio::test(start_paused = true)]
async fn an_agent_keeps_what_its_runs_found() {
    let host = TestHost::start().await;
    let long =
        |manifest: &mut Value| manifest["agents"][0]["memoryShape"] = json!({ "longTerm": true });
    for key in [LIVE, RIVAL] {
        assert_eq!(install(&host, key, signed(long)).await.0, 201);
    }
    let agents = host.get("/v1/agents").send().await.json["agents"].clone();
    assert_eq!(agents[0]["memoryShape"], json!({ "longTerm": true }));
    assert_eq!(agents[0]["memoryDegraded"], Value::Null);
    let agent = agents[0]["agentId"].as_str().expect("an agent").to_owned();
    let mut told = Vec::new();
    for _ in 0..2 {
        let body = json!({ "agentId": agent, "inputs": { "question": "tea?" } });
        let run = host.run_as(LIVE, body).await;
        let events = host.end_of(&run).await;
        let written = events.iter().find(|event| event["type"] == "memory.written");
        let written = written.unwrap_or_else(|| panic!("{events:?}"))["payload"].clone();
        assert_eq!((&written["agentId"], &written["nodeId"]), (&json!(agent), &json!("agent")));
        assert_eq!(written["memoryRef"], format!("agent/{agent}"));
        told.push(written["memoryId"].clone());
    }
    let kept =
        host.get(&format!("{MEMORY}?scopeId=agent/{agent}&tag=source:run")).send().await.json;
    let kept: Vec<&Value> =
        kept["entries"].as_array().expect("entries").iter().map(|entry| &entry["id"]).collect();
    assert_eq!(kept, [&told[1], &told[0]]);
    assert_eq!(host.get(MEMORY).key(RIVAL).send().await.json["entries"], json!([]));
}
