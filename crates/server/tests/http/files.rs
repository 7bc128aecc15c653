//! The files of a workspace over HTTP (RFC 0059): versions, conditions, limits, whose they are, and what runs see.

use axum::http::Method;
use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{
    LAB, LIVE, OPS, READER, RIVAL, Reply, Setup, TEST, TestHost, TestSeams, workflow,
};

const FILES: &str = "/v1/host/workspace/files";

async fn put(host: &TestHost, key: &str, path: &str, content: &str) -> Reply {
    let body = json!({ "content": content });
    host.call(Method::PUT, &format!("{FILES}/{path}")).key(key).json(&body).send().await
}

async fn listed(host: &TestHost, key: &str, query: &str) -> Vec<String> {
    let reply = host.get(&format!("{FILES}{query}")).key(key).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let files = reply.json["files"].as_array().expect("files").clone();
    assert!(files.iter().all(|file| file.get("content").is_none()), "{files:?}");
    files.iter().map(|file| format!("{}@{}", file["path"], file["version"])).collect()
}

/// The events that tell of files, newest run last.
async fn told(host: &TestHost) -> Vec<Value> {
    let runs = host.get("/v1/host/callboard/runs?workflowId=callboard-files").send().await.json;
    let mut told = Vec::new();
    for run in runs["runs"].as_array().expect("runs").iter().rev() {
        let events = host.end_of(run["runId"].as_str().expect("an id")).await;
        let of_kind = events.iter().filter(|event| event["type"] == "workspace.updated");
        told.extend(of_kind.map(|event| event["payload"].clone()));
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_file_is_written_read_listed_and_removed() {
    let host = TestHost::start().await;
    let path = format!("{FILES}/desk%2FCRUD.md");
    let created = put(&host, LIVE, "desk%2FCRUD.md", "first body").await;
    assert_eq!((created.status, created.header("etag")), (200, "\"v1\""), "{created:?}");
    assert_eq!((&created.json["version"], &created.json["etag"]), (&json!(1), &json!("\"v1\"")));
    // A slash need not be encoded.
    let read = host.get(&format!("{FILES}/desk/CRUD.md")).send().await;
    assert_eq!(read.json, created.json);
    assert_eq!(read.json["content"], "first body");
    assert_eq!(read.json["contentType"], "text/markdown");
    let known = host.get(&path).header("if-none-match", "\"v1\"").send().await;
    assert_eq!(known.status, 304);
    put(&host, LIVE, "a.json", "{}").await;
    assert_eq!(listed(&host, LIVE, "").await, ["\"a.json\"@1", "\"desk/CRUD.md\"@1"]);
    assert_eq!(listed(&host, LIVE, "?prefix=desk/").await, ["\"desk/CRUD.md\"@1"]);

    let again = put(&host, LIVE, "desk/CRUD.md", "second").await;
    assert_eq!(again.json["version"], 2);
    let old = host.get(&format!("{path}?version=1")).send().await;
    assert_eq!((&old.json["content"], &old.json["version"]), (&json!("first body"), &json!(1)));
    for (query, status) in [("?version=3", 404), ("?version=0", 400), ("?version=x", 400)] {
        assert_eq!(host.get(&format!("{path}{query}")).send().await.status, status, "{query}");
    }

    let removed = host.call(Method::DELETE, &path).send().await;
    assert_eq!(removed.status, 204, "{removed:?}");
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(host.call(method.clone(), &path).send().await.status, 404, "{method}");
    }
    assert_eq!(listed(&host, LIVE, "").await, ["\"a.json\"@1"]);
    let old = host.get(&format!("{path}?version=2")).send().await;
    assert_eq!(old.json["content"], "second");
    assert_eq!(host.get(&format!("{path}?version=3")).send().await.status, 404);
    let back = put(&host, LIVE, "desk/CRUD.md", "third").await;
    assert_eq!(back.json["version"], 4);
    let expected = [
        json!({ "path": "desk/CRUD.md", "version": 1 }),
        json!({ "path": "a.json", "version": 1 }),
        json!({ "path": "desk/CRUD.md", "version": 2 }),
        json!({ "path": "desk/CRUD.md", "version": 3 }),
        json!({ "path": "desk/CRUD.md", "version": 4 }),
    ];
    assert_eq!(told(&host).await, expected);
}

#[tokio::test(start_paused = true)]
async fn nobody_overwrites_what_they_have_not_read() {
    let host = TestHost::start().await;
    let path = format!("{FILES}/ETAG.md");
    let write = async |name: &str, value: &str| {
        let call = host.call(Method::PUT, &path).header(name, value);
        call.json(&json!({ "content": "x" })).send().await
    };
    let nothing = write("if-match", "\"v1\"").await;
    assert_eq!((nothing.status, nothing.text_at("error").as_str()), (409, "workspace_conflict"));
    assert_eq!(nothing.json["details"]["currentVersion"], 0);
    assert_eq!(write("if-match", "*").await.status, 409);
    assert_eq!(write("if-none-match", "*").await.json["version"], 1);
    assert_eq!(write("if-none-match", "*").await.status, 409);
    let stale = write("if-match", "\"definitely-stale\"").await;
    assert_eq!(stale.json["details"]["currentVersion"], 1, "{stale:?}");
    assert_eq!(write("if-match", "\"v1\"").await.json["version"], 2);
    assert_eq!(write("if-match", "\"v1\"").await.status, 409);
    assert_eq!(write("if-match", "\"v9\", \"v2\"").await.json["version"], 3);
    let stale = host.call(Method::DELETE, &path).header("if-match", "\"v2\"").send().await;
    assert_eq!((stale.status, &stale.json["details"]["currentVersion"]), (409, &json!(3)));
    let removed = host.call(Method::DELETE, &path).header("if-match", "\"v3\"").send().await;
    assert_eq!(removed.status, 204);
    // The tag of a file that is gone matches no file.
    assert_eq!(write("if-match", "\"v4\"").await.json["details"]["currentVersion"], 4);
    // Of writes at once every one is kept, one after the other.
    let writes = (0..4).map(|_| put(&host, LIVE, "busy.md", "x"));
    let mut versions: Vec<Value> = Vec::new();
    for reply in futures_util::future::join_all(writes).await {
        versions.push(reply.json["version"].clone());
    }
    versions.sort_by_key(Value::as_u64);
    assert_eq!(json!(versions), json!([1, 2, 3, 4]));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_write_gets_the_first_answer() {
    let host = TestHost::start().await;
    let write = async |content: &str| {
        let call = host.call(Method::PUT, &format!("{FILES}/once.md"));
        let call = call.header("idempotency-key", "once");
        call.json(&json!({ "content": content })).send().await
    };
    let (first, second) = (write("x").await, write("x").await);
    assert_eq!((first.status, &first.json["version"]), (200, &json!(1)));
    assert_eq!(second.json, first.json);
    assert_eq!(write("y").await.text_at("error"), "idempotency_key_mismatch");
    assert_eq!(told(&host).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn limits_and_paths_are_held() {
    let host = TestHost::start().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    let said = &document["workspace"];
    let expected = json!({ "supported": true, "versioned": true, "maxFileBytes": 262_144,
        "maxFiles": 200 });
    assert_eq!(*said, expected);
    let largest = "x".repeat(262_144);
    assert_eq!(put(&host, LIVE, "large.md", &largest).await.status, 200);
    let large = put(&host, LIVE, "large.md", &format!("{largest}x")).await;
    assert_eq!((large.status, large.text_at("error").as_str()), (413, "workspace_too_large"));
    assert_eq!(large.json["details"]["maxFileBytes"], said["maxFileBytes"]);
    for index in 1..200 {
        assert_eq!(put(&host, LIVE, &format!("f{index}"), "").await.status, 200, "{index}");
    }
    let more = put(&host, LIVE, "more.md", "").await;
    assert_eq!((more.status, more.text_at("error").as_str()), (413, "workspace_too_large"));
    assert_eq!(more.json["details"]["maxFiles"], 200);
    assert_eq!(put(&host, LIVE, "f1", "changed").await.json["version"], 2);
    for path in [
        "..%2Fup",
        "a%2F..%2Fb",
        "a..b",
        "%2Fetc%2Fpasswd",
        "%2e%2e",
        ".hidden",
        "a%00b",
        "a%20b",
        "a%5Cb",
        "%C3%A4",
        "/etc/passwd",
        &"x".repeat(257),
    ] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let call = host.call(method.clone(), &format!("{FILES}/{path}"));
            let reply = call.json(&json!({ "content": "" })).send().await;
            assert_eq!(reply.status, 400, "{method} {path}: {reply:?}");
            assert_eq!(reply.text_at("error"), "validation_error", "{method} {path}");
        }
    }
    for body in [json!({}), json!({ "content": 1 }), json!({ "content": "", "path": "a" })] {
        let reply = host.call(Method::PUT, &format!("{FILES}/a.md")).json(&body).send().await;
        assert_eq!(reply.status, 400, "{body}");
    }
}

/// WCT-1: somebody else's file and none are the same bytes.
#[tokio::test(start_paused = true)]
async fn files_are_their_workspaces_own() {
    let host = TestHost::start().await;
    put(&host, OPS, "IDENTITY.md", "of ops").await;
    for key in [LIVE, LAB, RIVAL, TEST] {
        assert_eq!(listed(&host, key, "").await, [""; 0], "{key}");
        for method in [Method::GET, Method::DELETE] {
            let ask = async |name: &str| {
                host.call(method.clone(), &format!("{FILES}/{name}")).key(key).send().await
            };
            let (theirs, nobodys) = (ask("IDENTITY.md").await, ask("UNKNOWN.md").await);
            assert_eq!((theirs.status, &theirs.json), (404, &nobodys.json), "{method} {key}");
        }
        let conflict = host.call(Method::PUT, &format!("{FILES}/IDENTITY.md")).key(key);
        let conflict = conflict.header("if-match", "\"v1\"").json(&json!({ "content": "x" }));
        assert_eq!(conflict.send().await.json["details"]["currentVersion"], 0, "{key}");
        assert_eq!(put(&host, key, "IDENTITY.md", key).await.json["version"], 1, "{key}");
    }
    let own = host.get(&format!("{FILES}/IDENTITY.md")).key(OPS).send().await;
    assert_eq!(own.json["content"], "of ops");
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let call = host.call(method.clone(), &format!("{FILES}/IDENTITY.md")).key(READER);
        let refused = call.json(&json!({ "content": "" })).send().await;
        assert_eq!(refused.status, 403, "{method}");
    }
}

/// WSR-1, for people.
#[tokio::test(start_paused = true)]
async fn what_looks_like_a_credential_is_not_kept() {
    let host = TestHost::start().await;
    let key = format!("sk-{}", "abcdefghijklmnopqrstuvwxyz0123456789ABCD");
    let written = put(&host, LIVE, "KEYS.md", &format!("the key is {key}")).await;
    assert_eq!(written.status, 200);
    let read = host.get(&format!("{FILES}/KEYS.md")).send().await;
    assert_eq!(read.json, written.json);
    let content = read.text_at("content");
    assert!(content.starts_with("the key is ") && !content.contains(&key), "{content}");
}

fn files_node(id: &str, config: Value) -> Value {
    let mut definition = workflow(id, &[("only", "callboard.files")]);
    definition["nodes"][0]["config"] = config;
    definition
}

async fn play(host: &TestHost, id: &str, config: Value) -> (String, Value) {
    let stored = host.post("/v1/host/callboard/workflows", &files_node(id, config)).send().await;
    assert!(matches!(stored.status, 200 | 201), "{stored:?}");
    let run = host.run(id, json!({})).await;
    host.end_of(&run).await;
    let shown = host.get(&format!("/v1/runs/{run}")).send().await.json;
    (run, shown)
}

/// RFC 0059 §D: what a run began with is on its snapshot and is what its nodes read.
#[tokio::test(start_paused = true)]
async fn a_run_reads_the_files_that_stood_there_when_it_began() {
    let host = TestHost::start().await;
    put(&host, LIVE, "DIRECTIVES.md", "be kind").await;
    let read = json!({ "action": "read", "path": "DIRECTIVES.md" });
    let (run, shown) = play(&host, "reads", read.clone()).await;
    assert_eq!(shown["workspace"], json!([{ "path": "DIRECTIVES.md", "version": 1 }]));
    let file = json!({ "path": "DIRECTIVES.md", "version": 1, "content": "be kind",
        "contentType": "text/markdown" });
    assert_eq!(shown["variables"]["only"]["file"], file, "{shown}");
    put(&host, LIVE, "DIRECTIVES.md", "be quick").await;
    let (_, list) = play(&host, "lists", json!({ "action": "list", "prefix": "D" })).await;
    let files = json!([{ "path": "DIRECTIVES.md", "version": 2 }]);
    assert_eq!(list["variables"]["only"]["files"], files);
    // A branch of the past sees the past.
    let fork = json!({ "mode": "branch", "fromSeq": 1 });
    let fork = host.post(&format!("/v1/runs/{run}:fork"), &fork).send().await;
    let fork = fork.text_at("runId");
    host.end_of(&fork).await;
    let shown = host.get(&format!("/v1/runs/{fork}")).send().await.json;
    assert_eq!(shown["variables"]["only"]["file"], file);
}

#[tokio::test(start_paused = true)]
async fn a_node_writes_for_those_that_come_later() {
    let host = TestHost::start().await;
    let write = json!({ "action": "write", "path": "LOG.md", "content": "one" });
    let (run, shown) = play(&host, "writes", write).await;
    let file = json!({ "path": "LOG.md", "version": 1 });
    assert_eq!(shown["variables"]["only"]["file"], file, "{shown}");
    let events = host.end_of(&run).await;
    let told = events.iter().find(|event| event["type"] == "workspace.updated").expect("told");
    assert_eq!((&told["payload"], &told["nodeId"]), (&file, &json!("only")));
    let read = host.get(&format!("{FILES}/LOG.md")).send().await;
    assert_eq!(read.json["content"], "one");
    for (config, code) in [
        (json!({ "path": "LOG.md", "content": "x", "expectedVersion": 7 }), "workspace_conflict"),
        (json!({ "path": "LOG.md", "content": "x", "expectedVersion": 0 }), "workspace_conflict"),
        (json!({ "path": "../up", "content": "x" }), "validation_error"),
        (json!({ "path": "a.md", "content": "x".repeat(262_145) }), "workspace_too_large"),
        (json!({ "path": "a.md" }), "validation_error"),
        (json!({ "action": "dance" }), "validation_error"),
    ] {
        let mut config = config;
        config["action"] = config.get("action").cloned().unwrap_or(json!("write"));
        let (_, shown) = play(&host, "refused", config).await;
        assert_eq!(shown["error"]["code"], code, "{shown}");
    }
    let (_, shown) = play(&host, "none", json!({ "action": "read", "path": "none.md" })).await;
    assert_eq!(shown["variables"]["only"]["file"], Value::Null);
}

/// WCT-1 as the suite drives it, with one key.
#[tokio::test(start_paused = true)]
async fn the_door_keeps_owners_apart() {
    let (seams, test_keys) = (TestSeams::On, TestKeys::All);
    let host = TestHost::of(Setup { seams, test_keys, ..Setup::default() }).await;
    let op = async |tenant: &str, workspace: &str, op: &str, content: Option<&str>| {
        let mut body = json!({ "tenant": tenant, "workspace": workspace, "op": op });
        if op != "list" {
            body["path"] = json!("WCT1-SECRET.md");
        }
        if let Some(content) = content {
            body["content"] = json!(content);
        }
        host.post("/v1/host/sample/workspace/op", &body).send().await
    };
    assert_eq!(op("a", "ws-a", "put", Some("A-only")).await.status, 200);
    for (tenant, workspace) in [("a", "ws-b"), ("b", "ws-a")] {
        let hidden = op(tenant, workspace, "get", None).await;
        assert_eq!(hidden.status, 404, "{hidden:?}");
        assert_eq!(op(tenant, workspace, "list", None).await.json["files"], json!([]));
        assert_eq!(op(tenant, workspace, "delete", None).await.status, 404);
    }
    assert_eq!(op("a", "ws-a", "get", None).await.text_at("content"), "A-only");
    // The caller's own workspace is none of those that a test names.
    assert_eq!(listed(&host, LIVE, "").await, [""; 0]);
    let own = op("acme", "ws-a", "list", None).await;
    assert_eq!(own.json["files"], json!([]));
    assert_eq!(op("a", "ws-a", "delete", None).await.status, 204);
    assert_eq!(op("a", "ws-a", "dance", None).await.status, 400);
    assert_eq!(op("a", "ws-a", "put", None).await.status, 400);
}
