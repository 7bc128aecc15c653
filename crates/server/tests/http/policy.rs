//! What agents send out and what they may use: the guarded fetch, credentials and their audiences, roles.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::Method;
use callboard_agents::Policy;
use callboard_backends::{Egress, Lookup, Reach, built_in};
use callboard_conformance::{self as conformance, FETCHER};
use callboard_protocol::Timestamp;
use callboard_server::Tools;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::given::{Setup, TestHost, TestSeams};
use crate::models::of;

const VIEWER: &str = "cb_viewer";
const KEYS: [&str; 2] = ["cb_live=acme", "cb_viewer=acme+role:viewer"];
const VALUE: &str = "a-token-that-nobody-would-guess";
const FETCH: &str = "openwop_core_openwop_http_fetch";

/// No name leads anywhere.
#[derive(Debug)]
struct Nowhere;

#[async_trait::async_trait]
impl Lookup for Nowhere {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

async fn host(reach: Reach) -> TestHost {
    let packs = conformance::packs(&Policy::default(), Timestamp::default()).expect("ours");
    let built_in = built_in(&Egress::new(reach, Arc::new(Nowhere))).expect("our own schemas");
    let tools = Tools { toolbox: Arc::new(built_in), ..Tools::default() };
    let seams = TestSeams::On;
    TestHost::of(Setup { packs, tools, seams, keys: &KEYS, is_live: true, ..Setup::default() })
        .await
}

async fn events(host: &TestHost, run: &str) -> Vec<Value> {
    let reply = host.get(&format!("/v1/host/sample/test/runs/{run}/events")).send().await;
    reply.json["events"].as_array().cloned().expect("events")
}

#[tokio::test(start_paused = true)]
async fn the_guard_blocks_private_addresses_names_that_move_there_and_upgrades() {
    let host = host(Reach::Public).await;
    for (body, why) in [
        (json!({ "url": "http://169.254.169.254/latest/meta-data/" }), "ssrf"),
        (json!({ "url": "https://127.0.0.1/" }), "ssrf"),
        (json!({ "url": "https://example.com/", "simulateRebindTo": "10.0.0.1" }), "ssrf"),
        (json!({ "url": "https://example.com/a", "simulateRebindTo": "::1" }), "ssrf"),
        (
            json!({ "url": "https://example.com/", "init": { "headers": { "Connection": "Upgrade" } } }),
            "upgrade",
        ),
    ] {
        let reply = host.post("/v1/host/sample/http/safe-fetch", &body).send().await;
        let told = (&reply.json["outcome"], &reply.json["blocked"]);
        assert_eq!(told, (&json!("blocked"), &json!(why)), "{body}");
    }
}

/// RFC 0076 §B with RFC 0064 §B: the log tells of a fetch that was not let out, too.
#[tokio::test(start_paused = true)]
async fn every_fetch_of_an_agent_is_told_in_its_log() {
    let host = host(Reach::Public).await;
    for (url, outcome) in
        [("http://169.254.169.254/", "blocked"), ("https://nobody.example/", "failed")]
    {
        let body = json!({ "url": url });
        let reply = host.post("/v1/host/sample/http/safe-fetch-run", &body).send().await;
        assert_eq!(reply.json["outcome"], outcome, "{reply:?}");
        let events = events(&host, &reply.text_at("runId")).await;
        let called = events.iter().find(|event| event["type"] == "agent.toolCalled");
        let returned = events.iter().find(|event| event["type"] == "agent.toolReturned");
        let (called, returned) = called.zip(returned).expect("a call and its return");
        assert_eq!(called["payload"]["transport"], "http");
        assert_eq!(called["payload"]["callId"], returned["payload"]["callId"]);
        assert_eq!(returned["causationId"], called["eventId"]);
    }
}

/// RFC 0079 §C.
#[tokio::test(start_paused = true)]
async fn a_credential_goes_to_its_audiences_alone_and_what_is_unknown_is_denied() {
    let host = host(Reach::Public).await;
    for (scenario, decision, reason) in [
        ("out-of-audience", "denied", "out-of-audience"),
        ("provenance-unevaluable", "denied", "provenance-unevaluable"),
        ("in-audience", "allowed", "ok"),
        ("canary", "denied", "out-of-audience"),
    ] {
        let body = json!({ "scenario": scenario });
        let reply = host.post("/v1/host/sample/egress/decide", &body).send().await;
        let told = (&reply.json["decision"], &reply.json["reason"]);
        assert_eq!(told, (&json!(decision), &json!(reason)), "{scenario}: {reply:?}");
        assert_eq!(reply.json["credentialAttached"], decision == "allowed");
        assert_eq!(reply.json["canaryLeaked"], false);
    }
    let secrets = host.get("/v1/host/callboard/secrets").send().await;
    assert_eq!(secrets.json["secrets"], json!([]), "it is gone again");
}

/// Answers one request, and tells its head.
async fn served(answer: String) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let task = TaskTracker::new().spawn(async move {
        let (stream, _) = listener.accept().await.expect("a caller");
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).await.expect("a line") > 0);
        }
        stream.get_mut().write_all(answer.as_bytes()).await.expect("an answer");
        head
    });
    (port, task)
}

async fn fetched(host: &TestHost, url: &str) -> Vec<Value> {
    let arguments = json!({ "url": url, "credential": "crm" });
    let inputs = json!({ "text": format!("[[scripted: tool {FETCH} {arguments}]]") });
    let configurable = json!({ "ai": { "provider": "scripted" } });
    let body = json!({ "agentId": FETCHER, "inputs": inputs, "configurable": configurable });
    let run = host.run_as(crate::given::LIVE, body).await;
    host.end_as(crate::given::LIVE, &run).await
}

async fn put(host: &TestHost, body: Value) -> u16 {
    let path = "/v1/host/callboard/secrets/crm";
    host.call(Method::PUT, path).json(&body).send().await.status
}

/// A redirect leads a credential nowhere that it is not meant for, and whoever echoes one tells nobody.
#[tokio::test]
async fn a_redirect_leaves_the_credential_behind() {
    let host = host(Reach::Anywhere).await;
    let elsewhere = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let target = format!("http://{}/", elsewhere.local_addr().expect("an address"));
    let moved = format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
    let (port, asked) = served(moved).await;
    let audience = format!("127.0.0.1:{port}");
    assert_eq!(put(&host, json!({ "value": VALUE, "audiences": [audience] })).await, 201);
    let events = fetched(&host, &format!("http://{audience}/")).await;
    let head = asked.await.expect("a head").to_ascii_lowercase();
    assert!(head.contains(&format!("authorization: bearer {VALUE}")), "{head}");
    let decided = of(&events, "egress.decided");
    assert_eq!(decided.len(), 2, "{decided:?}");
    assert_eq!(
        (&decided[0]["decision"], &decided[0]["destination"]),
        (&json!("allowed"), &json!(audience))
    );
    assert_eq!(
        (&decided[1]["decision"], &decided[1]["reason"]),
        (&json!("denied"), &json!("out-of-audience"))
    );
    let untouched = tokio::time::timeout(std::time::Duration::ZERO, elsewhere.accept()).await;
    assert!(untouched.is_err(), "nobody was sent there");
}

#[tokio::test]
async fn whoever_sends_a_credential_back_tells_nobody() {
    let host = host(Reach::Anywhere).await;
    let body = format!("you said {VALUE}");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let (port, asked) = served(answer).await;
    let audience = format!("127.0.0.1:{port}");
    put(&host, json!({ "value": VALUE, "audiences": [audience] })).await;
    let events = fetched(&host, &format!("http://{audience}/")).await;
    asked.await.expect("a head");
    let told = Value::from(events.clone()).to_string();
    assert!(!told.contains(VALUE), "{told}");
    assert_eq!(of(&events, "agent.toolReturned")[0]["outcome"]["body"], "you said [REDACTED:crm]");
}

#[tokio::test(start_paused = true)]
async fn audiences_are_hosts_and_are_shown_with_the_name() {
    let host = host(Reach::Public).await;
    for wrong in [json!([]), json!(["https://a.dev/"]), json!(["*"]), json!([""])] {
        assert_eq!(put(&host, json!({ "value": VALUE, "audiences": wrong })).await, 400);
    }
    let until = "2031-01-01T00:00:00.000Z";
    assert_eq!(put(&host, json!({ "value": VALUE, "expiresAt": until })).await, 400);
    let body = json!({ "value": VALUE, "audiences": ["a.dev"], "expiresAt": until });
    assert_eq!(put(&host, body).await, 201);
    let listed = host.get("/v1/host/callboard/secrets").send().await.json["secrets"][0].clone();
    assert_eq!((&listed["audiences"], &listed["expiresAt"]), (&json!(["a.dev"]), &json!(until)));
}

/// A credential with audiences is not told to a model's provider, which is none of them.
#[tokio::test(start_paused = true)]
async fn a_bound_credential_is_no_key_for_a_model() {
    let host = host(Reach::Public).await;
    put(&host, json!({ "value": VALUE, "audiences": ["a.dev"] })).await;
    let configurable = json!({ "ai": { "provider": "scripted", "credentialRef": "crm" } });
    let body =
        json!({ "agentId": FETCHER, "inputs": { "text": "Hello" }, "configurable": configurable });
    let run = host.run_as(crate::given::LIVE, body).await;
    let events = host.end_as(crate::given::LIVE, &run).await;
    let failed = &of(&events, "run.failed")[0]["error"];
    assert_eq!(failed["code"], "credential_forbidden", "{failed}");
}

/// RFC 0049: who holds nothing may do nothing, and a role is what its scopes are.
#[tokio::test(start_paused = true)]
async fn a_decision_that_cannot_be_made_denies() {
    let host = host(Reach::Public).await;
    let ask = async |principal: &str, action: &str| {
        let body = json!({ "principal": principal, "action": action, "resource": "run-1" });
        host.post("/v1/host/sample/authorization/decide", &body).send().await.json["allowed"]
            .clone()
    };
    assert_eq!(ask("conformance-unseeded-principal", "runs:cancel").await, false);
    assert_eq!(ask("key:static-ea709b6a", "runs:cancel").await, false);
    assert_eq!(ask("key:static-ea709b6a", "runs:read").await, true);
    assert_eq!(ask("key:static-9a08bb59", "runs:cancel").await, true);
    let read = host.get("/v1/host/callboard/runs").key(VIEWER).send().await;
    let create = host.post("/v1/runs", &json!({ "workflowId": "noop" })).key(VIEWER).send().await;
    assert_eq!((read.status, create.status), (200, 403));
}
