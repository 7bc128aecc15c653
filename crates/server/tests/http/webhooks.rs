//! Webhooks over HTTP: R67 registration and signature, R68 addresses, R69 tenants.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::post;
use callboard_backends::Reach;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::given::{Fault, LIVE, OPS, READER, RIVAL, Reply, Setup, TEST, TestHost};
use crate::observe::Lines;

const WEBHOOKS: &str = "/v1/webhooks";
const LISTED: &str = "/v1/host/callboard/webhooks";

/// More than any test sends.
const INBOX: usize = 64;

pub(crate) struct Letter {
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Letter {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// Somebody who subscribes, on loopback.
pub(crate) struct Receiver {
    pub(crate) url: String,
    letters: mpsc::Receiver<Letter>,
    stop: CancellationToken,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let (sender, letters) = mpsc::channel(INBOX);
        let router = Router::new()
            .route("/hook", post(keep))
            .route("/token-in-path", post(break_down))
            .with_state(sender);
        let stop = CancellationToken::new();
        let serving = axum::serve(listener, router);
        let serving = serving.with_graceful_shutdown(stop.clone().cancelled_owned());
        TaskTracker::new().spawn(async move { serving.await });
        Self { url, letters, stop }
    }

    pub(crate) async fn next(&mut self) -> Letter {
        self.letters.recv().await.expect("the receiver listens")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn keep(
    State(sender): State<mpsc::Sender<Letter>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    sender.send(Letter { headers, body }).await.expect("the test listens");
    StatusCode::NO_CONTENT
}

async fn break_down(
    sender: State<mpsc::Sender<Letter>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    keep(sender, headers, body).await;
    StatusCode::INTERNAL_SERVER_ERROR
}

pub(crate) async fn open_host() -> TestHost {
    TestHost::of(Setup { reach: Reach::Anywhere, ..Setup::default() }).await
}

async fn subscribe(host: &TestHost, key: &str, body: &Value) -> Reply {
    let reply = host.post(WEBHOOKS, body).key(key).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a receiver computes for itself, from the bytes that it got.
pub(crate) fn signature(secret: &str, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key will do");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("sha256={}", hex(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn r67_a_registered_webhook_gets_signed_events() {
    let host = open_host().await;
    let began = host.now().as_millis() / 1_000;
    let mut receiver = Receiver::start().await;
    let body = json!({ "url": receiver.url, "events": ["run.completed"], "tenantId": "acme" });
    let webhook = subscribe(&host, LIVE, &body).await;
    let secret = webhook.text_at("secret");
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{secret}");
    assert_eq!(webhook.text_at("subscriptionId"), webhook.text_at("webhookId"));
    assert_eq!(webhook.text_at("url"), receiver.url);
    assert_eq!(webhook.json["eventTypes"], json!(["run.completed"]));
    assert_eq!(webhook.text_at("secretFingerprint"), hex(Sha256::digest(&secret))[..8]);

    let run = host.run("chain", json!({})).await;
    let events = host.end_of(&run).await;
    let letter = receiver.next().await;
    for family in ["x-openwop-", "openwop-"] {
        let header = |name: &str| letter.header(&format!("{family}{name}"));
        assert_eq!(header("webhook-id"), webhook.text_at("webhookId"));
        assert_eq!(header("event-type"), "run.completed");
        assert_eq!(header("signature-algorithm"), "v1");
        let timestamp = header("timestamp");
        let seconds = timestamp.parse::<i64>().expect("seconds");
        assert!((began..=host.now().as_millis() / 1_000).contains(&seconds), "{timestamp}");
        assert_eq!(header("signature"), signature(&secret, timestamp, &letter.body));
    }
    assert_eq!(letter.header("content-type"), "application/json");
    assert!(letter.header("user-agent").starts_with("openwop-webhook-dispatcher/"));
    let expected = json!({
        "type": "run.completed", "runId": run, "workspaceId": "acme", "event": events.last(),
    });
    assert_eq!(letter.json(), expected);
}

#[tokio::test]
async fn r67_the_secret_is_shown_once() {
    let host = open_host().await;
    let body = json!({ "url": "http://127.0.0.1:9/", "events": ["run.*"], "tags": ["big"], "durable": true });
    let keyed = || host.post(WEBHOOKS, &body).header("idempotency-key", "k");
    let (first, again) = (keyed().send().await, keyed().send().await);
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(again.text_at("webhookId"), first.text_at("webhookId"));
    assert_eq!(again.json.get("secret"), None);
    let listed = host.get(LISTED).send().await;
    insta::assert_json_snapshot!(listed.json, {
        ".webhooks[].webhookId" => "[id]",
        ".webhooks[].secretFingerprint" => "[digits]",
        ".webhooks[].createdAt" => "[time]",
    }, @r#"
    {
      "webhooks": [
        {
          "createdAt": "[time]",
          "durable": true,
          "events": [
            "run.*"
          ],
          "secretFingerprint": "[digits]",
          "state": "active",
          "tags": [
            "big"
          ],
          "url": "http://127.0.0.1:9/",
          "webhookId": "[id]"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn r67_a_removed_webhook_is_gone() {
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "url": receiver.url, "events": ["run.completed"] });
    let gone = subscribe(&host, LIVE, &body).await.text_at("webhookId");
    let kept = subscribe(&host, LIVE, &body).await.text_at("webhookId");
    let path = format!("{WEBHOOKS}/{gone}?tenantId=acme");
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    let again = host.call(Method::DELETE, &path).send().await;
    assert_eq!(again.refusal(), (404, "subscription_not_found"));
    host.run("noop", json!({})).await;
    assert_eq!(receiver.next().await.header("x-openwop-webhook-id"), kept);
}

#[tokio::test]
async fn r68_addresses_inside_are_refused_at_registration() {
    let host = TestHost::start().await;
    for url in [
        "http://127.0.0.1:65535/",
        "http://example.com/",
        "https://127.0.0.1/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00::1]/",
        "https://localhost/",
        "https://metadata.google.internal/",
        "not a url",
    ] {
        let body = json!({ "url": url, "events": ["run.completed"] });
        let reply = host.post(WEBHOOKS, &body).send().await;
        assert_eq!(reply.refusal(), (400, "webhook_url_rejected"), "{url}");
    }
    assert_eq!(host.get(LISTED).send().await.json, json!({ "webhooks": [] }));
}

#[tokio::test]
async fn r69_a_webhook_belongs_to_its_tenant_and_mode() {
    let host = open_host().await;
    let body = json!({ "url": "http://127.0.0.1:9/", "events": ["*"] });
    let foreign = json!({ "url": "http://127.0.0.1:9/", "events": ["*"], "tenantId": "rival" });
    let refused = host.post(WEBHOOKS, &foreign).send().await;
    assert_eq!(refused.refusal(), (403, "tenant_membership_required"));

    let id = subscribe(&host, LIVE, &body).await.text_at("webhookId");
    let path = format!("{WEBHOOKS}/{id}");
    let elsewhere = host.call(Method::DELETE, &format!("{path}?tenantId=rival")).send().await;
    assert_eq!(elsewhere.status, 403);
    for key in [RIVAL, TEST, OPS] {
        let hidden = host.call(Method::DELETE, &path).key(key).send().await;
        let unknown = host.call(Method::DELETE, &format!("{WEBHOOKS}/wh_0")).key(key).send().await;
        assert_eq!(hidden.refusal(), (404, "subscription_not_found"), "{key}");
        assert_eq!(hidden.bytes, unknown.bytes);
        assert_eq!(host.get(LISTED).key(key).send().await.json, json!({ "webhooks": [] }), "{key}");
        let letters = host.get(&format!("{LISTED}/{id}/dead-letters")).key(key).send().await;
        assert_eq!(letters.status, 404, "{key}");
    }
    let letters = host.get(&format!("{LISTED}/{id}/dead-letters")).send().await;
    assert_eq!((letters.status, letters.json), (200, json!({ "deadLetters": [] })));
    assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
    let reader = host.post(WEBHOOKS, &body).key(READER).send().await;
    assert_eq!(reader.refusal(), (403, "forbidden"));
}

/// The run that must not be heard of comes first: whatever is planned is sent in order.
#[tokio::test]
async fn r69_only_runs_of_the_tenant_and_mode_are_told() {
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "url": receiver.url, "events": ["run.started"] });
    subscribe(&host, LIVE, &body).await;
    for key in [RIVAL, TEST] {
        let run = host.run_as(key, json!({ "workflowId": "noop" })).await;
        host.end_as(key, &run).await;
    }
    let own = host.run_as(OPS, json!({ "workflowId": "noop" })).await;
    let letter = receiver.next().await.json();
    assert_eq!((&letter["runId"], &letter["workspaceId"]), (&json!(own), &json!("ops")));
}

#[tokio::test]
async fn wrong_wishes_are_refused() {
    let host = open_host().await;
    let url = "http://127.0.0.1:9/";
    for body in [
        json!({}),
        json!({ "url": url }),
        json!({ "eventTypes": ["run.completed"] }),
        json!({ "url": url, "events": [] }),
        json!({ "url": url, "events": ["run.exploded"] }),
        json!({ "url": url, "events": ["*"], "secret": "mine" }),
        json!({ "url": url, "events": ["*"], "durable": "yes" }),
        json!({ "url": url, "events": ["*"], "tags": "big" }),
    ] {
        let reply = host.post(WEBHOOKS, &body).send().await;
        assert_eq!(reply.refusal(), (400, "validation_error"), "{body}");
    }
    let limit = host.get(&format!("{LISTED}/wh_0/dead-letters?limit=0")).send().await;
    assert_eq!(limit.status, 400);
    host.store.fail(Fault::Full);
    let full = host.post(WEBHOOKS, &json!({ "url": url, "events": ["*"] })).send().await;
    assert_eq!(full.status, 507);
}

#[tokio::test]
async fn a_failed_delivery_is_logged_without_secret_address_or_content() {
    let lines = Lines::default();
    let logger = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
    let logger = logger.with_writer(lines.clone()).finish();
    // While there is one logger only, tests on other threads, which have none, would switch its lines off for all.
    let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    // For this thread alone, which is the only one of this test.
    let _guard = tracing::subscriber::set_default(logger);
    let host = open_host().await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url.replace("hook", "token-in-path");
    let webhook = subscribe(&host, LIVE, &json!({ "url": url, "events": ["*"] })).await;
    host.run("noop", json!({ "a": "content-of-the-run" })).await;
    let first = receiver.next().await;
    // The second is sent when the first has been settled.
    receiver.next().await;
    let text = lines.text();
    assert!(text.contains("webhook not delivered"), "{text}");
    assert!(text.contains(&webhook.text_at("secretFingerprint")), "{text}");
    let signature = first.header("x-openwop-signature").trim_start_matches("sha256=").to_owned();
    for secret in [&webhook.text_at("secret"), &signature, "token-in-path", "content-of-the-run"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

/// R55: a replay is not news. What its source told once is not told again; a branch is told like any run.
#[tokio::test]
async fn r55_a_replay_sends_nothing() {
    let host = open_host().await;
    let source = host.run("noop", json!({})).await;
    host.end_of(&source).await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "url": receiver.url, "events": ["run.completed"] });
    subscribe(&host, LIVE, &body).await;
    let fork = |body: Value| host.post(&format!("/v1/runs/{source}:fork"), &body).send();
    let replay = fork(json!({ "mode": "replay" })).await.text_at("runId");
    host.end_of(&replay).await;
    let branch = fork(json!({ "mode": "branch", "fromSeq": 1 })).await.text_at("runId");
    // Deliveries keep the log's order: had the replay been told, it would come first.
    assert_eq!(receiver.next().await.json()["runId"], branch);
}
