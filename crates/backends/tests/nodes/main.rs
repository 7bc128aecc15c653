//! The published node types that act, as nodes of runs: against servers on loopback that answer well and badly, with
//! secrets that must not be seen, and judged by their packs' own schemas.

#![cfg(test)]

mod crashes;
mod http;
mod messages;
mod pages;
mod replies;
#[expect(dead_code, reason = "the engine's own tests use all of it")]
#[path = "../../../engine/tests/it/sim.rs"]
mod sim;
mod team;
mod tools;
mod values;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use callboard_agents::{Granted, Grants, ToolHooks, Toolbox, Toolboxes};
use callboard_backends::{
    Egress, Integrations, McpServers, Reach, SystemLookup, ToolNodes, acting_nodes, built_in,
};
use callboard_core::{NODE_TYPES, Provenance, Schema, SecretText};
use callboard_engine::{Activities, HeldSecret, InMemoryStore, Recorded, Secrets};
use callboard_protocol::{Object, Principal, Tenant, Timestamp};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use sim::{SimClock, ended, host_with, order, scope};

const MCP_TOOL: &str = "core.openwop.mcp.invoke-tool";
const MCP_LIST: &str = "core.openwop.mcp.list-tools";
const FETCH: &str = "core.openwop.http.fetch";
const OPERATION: &str = "core.openwop.http.openapi-call";
const BY_CURSOR: &str = "core.openwop.http.pagination-cursor";
const BY_LINK: &str = "core.openwop.http.pagination-link-header";
const BY_OFFSET: &str = "core.openwop.http.pagination-offset";
const QUERY: &str = "core.openwop.http.graphql-query";
const MUTATION: &str = "core.openwop.http.graphql-mutation";

fn node(id: &str, type_id: &str, config: Value, ports: Value) -> Value {
    json!({ "id": id, "typeId": type_id, "name": id, "position": { "x": 0, "y": 0 },
        "config": config, "inputs": ports })
}

fn ports(inputs: &Value) -> Value {
    let fields = inputs.as_object().unwrap().iter();
    let fields =
        fields.map(|(port, value)| (port.clone(), json!({ "type": "static", "value": value })));
    Value::Object(fields.collect())
}

/// Nobody holds anything; the tools of every host ask for nothing.
#[derive(Debug)]
struct Nobody;

#[async_trait]
impl Grants for Nobody {
    async fn granted(&self, _: &Tenant, _: &Principal, _: Timestamp) -> Granted {
        Granted::Unknown
    }
}

/// Runs one after the other, and reads what the log says.
struct World {
    store: Arc<InMemoryStore>,
    /// One for all runs: what a run keeps until a time is read by a later one.
    clock: Arc<SimClock>,
    reach: Reach,
    runs: AtomicU32,
    mcp: Option<Arc<McpServers>>,
    integrations: Integrations,
}

impl World {
    fn new(reach: Reach) -> Self {
        let (store, clock) = (Arc::new(InMemoryStore::new()), SimClock::new());
        Self {
            store,
            clock,
            reach,
            runs: AtomicU32::new(0),
            mcp: None,
            integrations: Integrations::default(),
        }
    }

    async fn keep(&self, name: &str, value: &str, audience: Option<String>) {
        let provenance =
            audience.map(|host| Provenance { audiences: vec![host], expires_at: None });
        let secret = HeldSecret { value: SecretText::new(value.to_owned()), provenance };
        let secrets = Secrets::new(self.store.clone());
        secrets.put_secret(&scope(), &name.into(), secret, Timestamp::default()).await.unwrap();
    }

    async fn run(&self, nodes: Vec<Value>) -> Vec<Recorded> {
        let (store, clock) = (self.store.clone(), Arc::clone(&self.clock));
        let definitions = [chain(&nodes)];
        let name = format!("host{}", self.runs.fetch_add(1, Ordering::Relaxed));
        let activities = self.activities();
        let engine =
            host_with(&name, store.clone(), store.clone(), clock, &definitions, activities);
        let order = order("w", Object::new(), Object::new());
        let run = engine.create(order, None).await.unwrap().run;
        let log = ended(&store, &run).await;
        engine.kill();
        log
    }

    /// All that acts.
    fn activities(&self) -> Activities {
        let mut activities = Activities::default();
        let egress = Egress::new(self.reach, Arc::new(SystemLookup));
        for (type_id, activity) in acting_nodes(&egress, &self.integrations) {
            activities = activities.with(type_id, activity);
        }
        let servers = self.mcp.iter().map(|servers| Arc::clone(servers) as Arc<dyn Toolbox>);
        let own = Arc::new(built_in(&egress).unwrap()) as Arc<dyn Toolbox>;
        let boxes = std::iter::once(own).chain(servers).collect();
        let tools = ToolNodes {
            toolbox: Arc::new(Toolboxes(boxes)),
            mcp: self.mcp.clone(),
            hooks: Arc::new(ToolHooks::default()),
            grants: Arc::new(Nobody),
            workspaces: std::env::temp_dir().join("callboard-no-folder"),
            timeout: Duration::from_secs(5),
        };
        for (type_id, activity) in tools.types() {
            activities = activities.with(type_id, activity);
        }
        activities
    }

    /// What one node came to: its outputs, or `failed`.
    async fn one(&self, type_id: &str, config: Value, inputs: &Value) -> Value {
        outcome(&self.run(vec![node("n", type_id, config, ports(inputs))]).await)
    }
}

/// A workflow of nodes one after the other.
fn chain(nodes: &[Value]) -> String {
    let edges: Vec<Value> = (1..nodes.len())
        .map(|to| {
            json!({ "id": format!("e{to}"), "sourceNodeId": nodes[to - 1]["id"],
                "targetNodeId": nodes[to]["id"] })
        })
        .collect();
    json!({ "id": "w", "name": "w", "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {} })
    .to_string()
}

fn told(log: &[Recorded], kind: &str) -> Vec<Value> {
    let events = log.iter().filter(|event| event.kind == kind);
    events.map(|event| serde_json::from_str(&event.payload).unwrap()).collect()
}

fn outcome(log: &[Recorded]) -> Value {
    match told(log, "node.failed").first() {
        Some(failed) => json!({ "failed": failed["error"] }),
        None => told(log, "node.completed").last().unwrap()["outputs"].clone(),
    }
}

/// Answers each request with the next of these texts, the last one again and again, and keeps what it was sent.
struct Server {
    url: String,
    host: String,
    seen: Arc<Mutex<Vec<String>>>,
    /// Ends the server with the test.
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Server {
    async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&seen);
        let task = TaskTracker::new().spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read_request(&mut socket).await;
                let place = {
                    let mut sent = sent.lock().unwrap();
                    sent.push(request);
                    sent.len() - 1
                };
                let answer = &answers[place.min(answers.len() - 1)];
                // Whoever has read enough hangs up.
                let _ = socket.write_all(answer.as_bytes()).await;
                if answer.contains("endless") {
                    while socket.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
                }
            }
        });
        let task = tokio_util::task::AbortOnDropHandle::new(task);
        Self { url: format!("http://{host}"), host, seen, _task: task }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut buffer = [0; 4096];
        let count = socket.read(&mut buffer).await.unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
        });
        if count == 0 || body.len() >= length.unwrap_or(0) {
            return text;
        }
    }
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}

#[tokio::test]
async fn a_signature_is_made_with_a_secret_that_no_log_holds() {
    let world = World::new(Reach::Public);
    world.keep("signing", "a-key-of-ours", None).await;
    let mut sign =
        node("s", "core.crypto.hmac-sign", json!({}), ports(&json!({ "data": "hello" })));
    let mut verify = node(
        "v",
        "core.crypto.hmac-verify",
        json!({}),
        json!({
            "data": { "type": "static", "value": "hello" },
            "signature": { "type": "connection", "nodeId": "s", "outputKey": "signature" },
        }),
    );
    sign["credentialsRef"] = "signing".into();
    verify["credentialsRef"] = "signing".into();
    let log = world.run(vec![sign.clone(), verify]).await;
    assert_eq!(outcome(&log), json!({ "valid": true }));
    assert!(!log.iter().any(|event| event.payload.contains("a-key-of-ours")));
    sign["credentialsRef"] = "nobody".into();
    let log = world.run(vec![sign]).await;
    assert_eq!(outcome(&log)["failed"]["code"], "credential_not_found");
}

#[tokio::test]
async fn files_of_the_workspace_are_written_and_read_by_later_runs() {
    let world = World::new(Reach::Public);
    let utf8 = json!({ "encoding": "utf8" });
    let write = json!({ "path": "notes/a.md", "content": "hé" });
    assert_eq!(world.one("core.files.write", utf8.clone(), &write).await, json!({ "bytes": 3 }));
    let again = json!({ "encoding": "utf8", "mode": "create-only" });
    let refused = world.one("core.files.write", again, &write).await;
    assert!(refused.get("failed").is_some(), "{refused}");
    let append = json!({ "mode": "append" });
    let more = json!({ "path": "notes/a.md", "content": "IQ==" });
    assert_eq!(world.one("core.files.write", append, &more).await, json!({ "bytes": 4 }));
    let read = world.one("core.files.read", utf8, &json!({ "path": "notes/a.md" })).await;
    assert_eq!((&read["content"], &read["size"]), (&json!("hé!"), &json!(4)));
    let listed = world.one("core.files.list", json!({}), &json!({ "path": "" })).await;
    assert_eq!(
        listed["entries"],
        json!([{ "name": "notes", "path": "notes", "isDirectory": true }])
    );
    let stat = world.one("core.files.stat", json!({}), &json!({ "path": "notes/b.md" })).await;
    assert_eq!(stat, json!({ "exists": false }));
    let missing = world.one("core.files.read", json!({}), &json!({ "path": "../secret" })).await;
    assert_eq!(missing["failed"]["code"], "file_not_found");
    let wrong = world.one("core.files.read", json!({}), &json!({ "path": 7 })).await;
    assert_eq!(wrong["failed"]["code"], "validation_error");
}

#[tokio::test]
async fn every_acting_type_matches_the_schemas_of_its_pack() {
    let Some(packs) = packs() else { return };
    let server = Server::start(vec![answer(200, "content-type: text/plain\r\n", "ok")]).await;
    let file = json!({ "path": "a.txt", "content": "aGk=" });
    let (path, folder) = (json!({ "path": "a.txt" }), json!({ "path": "." }));
    let signed = json!({ "key": "k", "data": "d", "signature": "00" });
    let examples = [
        ("core.files.write", json!({}), file),
        ("core.files.read", json!({ "encoding": "utf8" }), path.clone()),
        ("core.files.stat", json!({}), path),
        ("core.files.list", json!({ "recursive": true }), folder),
        ("core.files.delete", json!({}), json!({ "path": "a.txt" })),
        ("core.storage.kv-set", json!({ "ttlSeconds": 60 }), json!({ "key": "k", "value": [1] })),
        ("core.storage.kv-get", json!({}), json!({ "key": "k" })),
        ("core.storage.kv-cas", json!({}), json!({ "key": "k", "expect": [1], "set": 2 })),
        ("core.storage.kv-atomic-increment", json!({ "delta": 3 }), json!({ "key": "k" })),
        ("core.storage.kv-list", json!({ "prefix": "k" }), json!({})),
        ("core.storage.kv-delete", json!({}), json!({ "key": "k" })),
        (OPERATION, json!({ "operationId": "get" }), json!({ "openapi": openapi(&server.url) })),
        (BY_CURSOR, json!({ "maxPages": 2 }), json!({ "url": server.url })),
        (BY_LINK, json!({}), json!({ "url": server.url })),
        (BY_OFFSET, json!({ "pageSize": 2 }), json!({ "url": server.url })),
        (FETCH, json!({ "url": server.url, "method": "PUT" }), json!({ "body": "x" })),
        (QUERY, json!({ "endpoint": server.url }), json!({ "query": "{ a }" })),
        (MUTATION, json!({ "endpoint": server.url }), json!({ "query": "mutation { a }" })),
        ("core.crypto.hmac-sign", json!({}), json!({ "key": "k", "data": "d" })),
        ("core.crypto.hmac-verify", json!({}), signed),
    ];
    let world = World::new(Reach::Anywhere);
    for (type_id, config, inputs) in &examples {
        let outputs = world.one(type_id, config.clone(), inputs).await;
        for (part, value) in [("config", config), ("input", inputs), ("output", &outputs)] {
            let schema = schema(&packs, type_id, &format!("{part}SchemaRef"));
            assert_eq!(schema.violations(value), Vec::<String>::new(), "{type_id} {part}: {value}");
        }
    }
    let egress = Egress::new(Reach::Public, Arc::new(SystemLookup));
    for (type_id, _) in acting_nodes(&egress, &Integrations::default()) {
        // Messages need secrets: `messages.rs` and `replies.rs` have them.
        let is_message = type_id.starts_with("core.openwop.integration.")
            || type_id.starts_with("callboard.reply.");
        let has_example = is_message || examples.iter().any(|(known, ..)| *known == type_id);
        assert!(has_example, "{type_id} has no example");
        assert!(NODE_TYPES.iter().any(|known| known.type_id == type_id), "{type_id} is not listed");
    }
}

/// A document with one operation without parameters.
fn openapi(server: &str) -> Value {
    json!({ "servers": [{ "url": server }], "paths": { "/a": { "get": { "operationId": "get" } } } })
}

/// The folder with the published packs; none, with a line that says so, where it is missing and not required.
fn packs() -> Option<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop/node-packs");
    let folder = PathBuf::from(folder);
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|part| part.trim() == "openwop");
    assert!(!is_required, "openwop is required and not there");
    // Past the capture of test output: a skipped test must be seen.
    let told = std::io::stderr()
        .write_all(b"skipped: the published node packs are not at ../shared/openwop/node-packs\n");
    told.unwrap();
    None
}

fn schema(packs: &std::path::Path, type_id: &str, part: &str) -> Schema {
    let read = |path: PathBuf| -> Option<Value> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    };
    for pack in std::fs::read_dir(packs).unwrap() {
        let folder = pack.unwrap().path();
        let manifest = read(folder.join("pack.json")).unwrap_or_default();
        let mut nodes = manifest["nodes"].as_array().into_iter().flatten();
        if let Some(node) = nodes.find(|node| node["typeId"] == type_id) {
            let mut schema = read(folder.join(node[part].as_str().unwrap())).unwrap();
            let fields = schema.as_object_mut().unwrap();
            fields.remove("$schema");
            fields.remove("$id");
            return Schema::compile(schema.to_string().as_bytes()).unwrap();
        }
    }
    panic!("no pack has {type_id}")
}
