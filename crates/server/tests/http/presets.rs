//! Webhooks of well-known senders: believed by their own signatures, taken once, filtered, and refused where forged.

use axum::http::Method;
use callboard_protocol::hex;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::given::{READER, RIVAL, Reply, TestHost, workflow};
use crate::triggers::{OURS, state};

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const FORM: &str = "application/x-www-form-urlencoded";

/// A subscription of our own route, with its id and the path to post to.
struct Door<'h> {
    host: &'h TestHost,
    id: String,
    path: String,
}

async fn make(host: &TestHost, more: Value) -> Reply {
    let mut body = json!({ "source": "webhook", "workflowId": "noop" });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        body[name] = value;
    }
    host.post(OURS, &body).send().await
}

async fn door(host: &TestHost, more: Value) -> Door<'_> {
    let reply = make(host, more).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(reply.json.pointer("/binding/signingSecret"), None, "who gave it has it");
    let id = reply.json["subscription"]["subscriptionId"]
        .as_str()
        .expect("what the host promises")
        .to_owned();
    let path =
        reply.json["binding"]["ingestUrl"].as_str().expect("what the host promises").to_owned();
    Door { host, id, path }
}

fn sign(said: &str) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("what the host promises");
    mac.update(said.as_bytes());
    hex(mac.finalize().into_bytes())
}

impl Door<'_> {
    async fn send(&self, query: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut call = self.host.call(Method::POST, &format!("{}{query}", self.path)).anonymous();
        for (name, value) in headers {
            call = call.header(name, value);
        }
        call.bytes(body.to_owned()).send().await
    }

    async fn github(&self, id: &str, event: &str, body: &str) -> Reply {
        let signature = format!("sha256={}", sign(body));
        let headers = [
            ("content-type", "application/json"),
            ("x-github-delivery", id),
            ("x-github-event", event),
            ("x-hub-signature-256", signature.as_str()),
        ];
        self.send("", &headers, body).await
    }

    fn seconds(&self) -> i64 {
        self.host.now().as_millis() / 1_000
    }

    async fn slack_at(&self, at: i64, kind: &str, body: &str) -> Reply {
        let signature = format!("v0={}", sign(&format!("v0:{at}:{body}")));
        let at = at.to_string();
        let headers = [
            ("content-type", kind),
            ("x-slack-request-timestamp", at.as_str()),
            ("x-slack-signature", signature.as_str()),
            ("x-slack-retry-num", "1"),
        ];
        self.send("", &headers, body).await
    }

    async fn slack(&self, kind: &str, body: &str) -> Reply {
        self.slack_at(self.seconds(), kind, body).await
    }

    async fn stripe(&self, header: &str, body: &str) -> Reply {
        self.send("", &[("stripe-signature", header)], body).await
    }

    async fn deliveries(&self) -> Value {
        self.host.get(&format!("{OURS}/{}/deliveries", self.id)).send().await.json
    }
}

fn outcome(reply: &Reply) -> (u16, &str) {
    (reply.status, reply.json["outcome"].as_str().unwrap_or_default())
}

/// What the run of a reply was given.
async fn given(host: &TestHost, reply: &Reply) -> Value {
    let run = reply.text_at("runId").as_str().into();
    let opened = host
        .engine
        .store()
        .open(&run)
        .await
        .expect("what the host promises")
        .expect("what the host promises");
    assert!(opened.birth.from_outside, "what a stranger sent is a stranger's");
    json!(opened.birth.delivery.expect("what the host promises").event)
}

#[tokio::test(start_paused = true)]
async fn github_is_known_by_its_signature_and_a_redelivery_starts_nothing() {
    let host = TestHost::start().await;
    let door = door(&host, json!({ "preset": "github", "secret": SECRET })).await;
    assert_eq!(outcome(&door.github("d-0", "ping", "{}").await), (200, "pong"));
    let body = r#"{"action":"opened","issue":{"number":7}}"#;
    let first = door.github("d-1", "issues", body).await;
    assert_eq!(outcome(&first), (202, "delivered"), "{first:?}");
    let again = door.github("d-1", "issues", body).await;
    assert_eq!(outcome(&again), (200, "duplicate"));
    assert_eq!(again.json["runId"], first.json["runId"]);
    let seen = given(&host, &first).await;
    assert_eq!(seen["event"], "issues");
    assert_eq!(seen["contentTrust"], "untrusted");
    assert_eq!(seen["verified"], true);
    assert_eq!(seen["webhook"]["body"]["issue"]["number"], 7);
    assert_eq!(seen["webhook"]["headers"]["x-github-event"], "issues");
    assert_eq!(seen["webhook"]["headers"].get("x-hub-signature-256"), None);
    let forged =
        door.send("", &[("x-github-event", "issues"), ("x-hub-signature-256", "sha256=00")], body);
    assert_eq!(forged.await.refusal(), (401, "signature_invalid"));
    let good = format!("sha256={}", sign(body));
    let doubled = [("x-hub-signature-256", good.as_str()), ("x-hub-signature-256", "sha256=00")];
    assert_eq!(door.send("", &doubled, body).await.refusal(), (401, "signature_invalid"));
    let other = door.send("", &[("x-hub-signature-256", good.as_str())], "{}").await;
    assert_eq!(other.refusal(), (401, "signature_invalid"));
    let standard = [("webhook-id", "msg_0123456789abcdef"), ("webhook-signature", "v1,AAAA")];
    assert_eq!(door.send("", &standard, body).await.refusal(), (401, "signature_invalid"));
    assert_eq!(state(&host, &door.id).await, "active");
    let listed = door.deliveries().await;
    assert_eq!(listed["deliveries"].as_array().unwrap().len(), 1, "a trial is no delivery");
}

#[tokio::test(start_paused = true)]
async fn slack_is_answered_at_once_and_in_its_own_five_minutes() {
    let host = TestHost::start().await;
    let door = door(&host, json!({ "preset": "slack", "secret": SECRET })).await;
    let challenge = r#"{"type":"url_verification","challenge":"3eZbrw"}"#;
    let trial = door.slack("application/json", challenge).await;
    assert_eq!((trial.status, &trial.json), (200, &json!({ "challenge": "3eZbrw" })));
    let unsigned = door.send("", &[], challenge).await;
    assert_eq!(unsigned.refusal(), (401, "signature_invalid"), "no echo for strangers");
    let body =
        r#"{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention","ts":"1.2"}}"#;
    let first = door.slack("application/json", body).await;
    assert_eq!(outcome(&first), (200, "delivered"), "Slack takes only 200");
    let retried = door.slack("application/json", body).await;
    assert_eq!(outcome(&retried), (200, "duplicate"));
    let seen = given(&host, &first).await;
    assert_eq!(
        (&seen["event"], &seen["webhook"]["headers"]["x-slack-retry-num"]),
        (&json!("app_mention"), &json!("1"))
    );
    let pressed = "payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%221.2%22%7D";
    let first = door.slack(FORM, pressed).await;
    assert_eq!(outcome(&first), (200, "delivered"));
    assert_eq!(given(&host, &first).await["webhook"]["body"]["type"], "block_actions");
    let typed = door.slack(FORM, "command=%2Fask&trigger_id=9&text=hello").await;
    assert_eq!(typed.json["response_type"], "ephemeral", "{typed:?}");
    for off in [-301, 301] {
        let stale = door.slack_at(door.seconds() + off, "application/json", body).await;
        assert_eq!(stale.refusal(), (401, "signature_invalid"), "{off}");
    }
}

#[tokio::test(start_paused = true)]
async fn stripe_may_sign_twice_and_an_old_signature_is_refused() {
    let host = TestHost::start().await;
    let door = door(&host, json!({ "preset": "stripe", "secret": SECRET })).await;
    let body = r#"{"id":"evt_1","type":"invoice.paid"}"#;
    let now = door.seconds();
    let good = sign(&format!("{now}.{body}"));
    let first = door.stripe(&format!("t={now},v1={},v1={good}", sign("another")), body).await;
    assert_eq!(outcome(&first), (202, "delivered"), "{first:?}");
    assert_eq!(given(&host, &first).await["event"], "invoice.paid");
    // A new signature of the same event: sent again after no answer.
    let later = now + 60;
    let renewed = sign(&format!("{later}.{body}"));
    assert_eq!(
        outcome(&door.stripe(&format!("t={later},v1={renewed}"), body).await),
        (200, "duplicate")
    );
    let old = now - 301;
    let stale = format!("t={old},v1={}", sign(&format!("{old}.{body}")));
    let two_times = format!("t={old},t={now},v1={good}");
    for refused in [stale.as_str(), two_times.as_str(), "t=1,v1=00", ""] {
        let reply = door.stripe(refused, body).await;
        assert_eq!(reply.refusal(), (401, "signature_invalid"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_token_stands_in_a_header_or_in_the_address() {
    let host = TestHost::start().await;
    let token = json!({ "header": "X-Gitlab-Token" });
    let gitlab = door(&host, json!({ "preset": "token", "secret": SECRET, "token": token })).await;
    let sent =
        [("x-gitlab-token", SECRET), ("x-gitlab-event", "Push Hook"), ("idempotency-key", "k")];
    let first = gitlab.send("", &sent, r#"{"ref":"main"}"#).await;
    assert_eq!(outcome(&first), (202, "delivered"), "{first:?}");
    assert_eq!(outcome(&gitlab.send("", &sent, r#"{"ref":"main"}"#).await), (200, "duplicate"));
    let seen = given(&host, &first).await;
    assert_eq!(seen["event"], "Push Hook");
    assert!(!seen.to_string().contains(SECRET), "the run does not see the token");
    let almost = &SECRET[..SECRET.len() - 1];
    for wrong in [vec![("x-gitlab-token", almost)], vec![("x-webhook-token", SECRET)], vec![]] {
        assert_eq!(gitlab.send("", &wrong, "{}").await.refusal(), (401, "signature_invalid"));
    }
    let asked = json!({ "preset": "token", "secret": SECRET, "token": { "query": "key" } });
    let door = door(&host, asked).await;
    assert_eq!(outcome(&door.send(&format!("?key={SECRET}"), &[], "{}").await), (202, "delivered"));
    let twice = format!("?key={SECRET}&key=x");
    for wrong in ["", "?key=", "?key=wrong", twice.as_str()] {
        let reply = door.send(wrong, &[("key", SECRET)], "{}").await;
        assert_eq!(reply.refusal(), (401, "signature_invalid"), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_filter_leaves_out_starts_nothing_and_is_seen() {
    let host = TestHost::start().await;
    let filter = "event == 'issues' and body.action == 'opened'";
    let asked = json!({ "preset": "github", "secret": SECRET, "filter": filter });
    let door = door(&host, asked).await;
    for (id, event, body) in [
        ("d-1", "push", "{}"),
        ("d-2", "issues", r#"{"action":"closed"}"#),
        ("d-3", "issues", "not JSON"),
    ] {
        assert_eq!(outcome(&door.github(id, event, body).await), (200, "filtered"), "{id}");
    }
    let wanted = door.github("d-4", "issues", r#"{"action":"opened"}"#).await;
    assert_eq!(outcome(&wanted), (202, "delivered"));
    let listed = door.deliveries().await;
    assert_eq!(listed["filtered"], 3);
    let states: Vec<&str> = listed["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["state"].as_str())
        .collect();
    assert_eq!(states.iter().filter(|state| **state == "filtered").count(), 3, "{listed}");
    assert_eq!(states.len(), 4);
    let own = host.get(&format!("{OURS}/{}", door.id)).send().await.json;
    assert_eq!((&own["filter"], &own["preset"]), (&json!(filter), &json!("github")));
    assert!(!own.to_string().contains(SECRET));
    let rival = host.get(&format!("{OURS}/{}/deliveries", door.id)).key(RIVAL).send().await;
    assert_eq!(rival.status, 404);
}

/// A filter that fails on what came in must not lose it: it is a dead letter that a person can play again.
#[tokio::test(start_paused = true)]
async fn what_a_filter_cannot_judge_is_a_dead_letter() {
    let host = TestHost::start().await;
    let asked = json!({ "preset": "github", "secret": SECRET, "filter": "body.n + 1 > 3" });
    let door = door(&host, asked).await;
    assert_eq!(outcome(&door.github("d-1", "x", r#"{"n":"many"}"#).await), (200, "dead-lettered"));
    assert_eq!(outcome(&door.github("d-2", "x", r#"{"n":3}"#).await), (202, "delivered"));
    assert_eq!(state(&host, &door.id).await, "active");
}

fn github(more: Value) -> Value {
    let mut asked = json!({ "preset": "github", "workflowId": "greet" });
    let more = more.as_object().cloned().unwrap_or_default();
    more.into_iter().for_each(|(name, value)| asked[name] = value);
    asked
}

/// What is asked for, what its refusal names, and the nearest thing that there is.
fn refused() -> Vec<(Value, &'static str, Option<&'static str>)> {
    vec![
        (json!({ "preset": "githb" }), "preset", None),
        (json!({ "preset": "slack" }), "secret", None),
        (json!({ "preset": "stripe", "secret": "short" }), "secret", None),
        (json!({ "secret": SECRET }), "secret", None),
        (json!({ "preset": "github", "token": { "query": "key" } }), "token", None),
        (json!({ "preset": "token", "token": { "header": "host" } }), "token.header", None),
        (json!({ "preset": "token", "token": { "query": "a b" } }), "token.query", None),
        (json!({ "source": "form", "preset": "github" }), "preset", None),
        (json!({ "source": "queue", "preset": "token" }), "preset", None),
        (json!({ "source": "email", "preset": "slack" }), "preset", None),
        (json!({ "source": "form", "secret": SECRET }), "secret", None),
        (github(json!({ "filter": "event ==" })), "filter", None),
        (github(json!({ "filter": " " })), "filter", None),
        (github(json!({ "filter": "evnt == 'push'" })), "filter", Some("event")),
        (json!({ "filter": "event == 'push'" }), "filter", None),
        (
            github(json!({ "filter": "headers['x-github-evnt'] == 'push'" })),
            "filter",
            Some("headers.x-github-event"),
        ),
        (github(json!({ "filter": "email.subject == 'x'" })), "filter", None),
        (
            json!({ "source": "email", "filter": "email.sujet == 'x'" }),
            "filter",
            Some("email.subject"),
        ),
        (
            github(json!({ "inputMapping": { "mesage": "body.text" } })),
            "inputMapping.mesage",
            Some("message"),
        ),
        (
            github(json!({ "inputMapping": { "message": "webhook.bdy.text" } })),
            "inputMapping.message",
            None,
        ),
        (
            github(json!({ "inputMapping": { "message": "headers.x-hub-signature-256" } })),
            "inputMapping.message",
            None,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_cannot_work_is_refused_by_name() {
    let host = TestHost::start().await;
    let mut greet = workflow("greet", &[("only", "core.noop")]);
    greet["variables"] = json!([{ "name": "message", "type": "string" }]);
    let stored = host.post("/v1/host/callboard/workflows", &greet).send().await;
    assert!(stored.status == 200 || stored.status == 201, "{stored:?}");
    for (asked, at, near) in refused() {
        let reply = make(&host, asked.clone()).await;
        assert_eq!(reply.status, 400, "{asked}: {reply:?}");
        assert!(reply.json.to_string().contains(at), "{asked}: {reply:?}");
        if let Some(near) = near {
            assert_eq!(reply.json["details"]["didYouMean"], near, "{asked}: {reply:?}");
        }
    }
    let whole = github(
        json!({ "inputMapping": { "message": "body.issue.title" }, "filter": "body.issue" }),
    );
    assert_eq!(make(&host, whole).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_senders_new_secret_is_taken_beside_the_last() {
    let host = TestHost::start().await;
    let made =
        make(&host, json!({ "preset": "slack", "secret": "the secret before this one" })).await;
    let id = made.json["subscription"]["subscriptionId"].as_str().unwrap().to_owned();
    let path = made.json["binding"]["ingestUrl"].as_str().unwrap().to_owned();
    let rotate = format!("{OURS}/{id}/rotate-secret");
    let unnamed = host.call(Method::POST, &rotate).send().await;
    assert_eq!(unnamed.status, 400, "only Slack makes one: {unnamed:?}");
    let closed = host.post(&rotate, &json!({ "secrt": SECRET })).send().await;
    assert_eq!(closed.status, 400);
    let rotated = host.post(&rotate, &json!({ "secret": SECRET })).send().await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    assert!(!rotated.json.to_string().contains(SECRET));
    let door = Door { host: &host, id, path };
    let body = r#"{"type":"event_callback","event_id":"Ev1","event":{"type":"message"}}"#;
    assert_eq!(outcome(&door.slack("application/json", body).await), (200, "delivered"));
    let reader = host.post(&rotate, &json!({ "secret": SECRET })).key(READER).send().await;
    assert_eq!(reader.status, 403);
}

#[tokio::test(start_paused = true)]
async fn the_presets_are_listed_with_what_a_run_sees_of_each() {
    let host = TestHost::start().await;
    let listed = host.get("/v1/host/callboard/trigger-presets").send().await;
    assert_eq!(listed.status, 200);
    let presets = listed.json["presets"].as_array().unwrap();
    let names: Vec<_> = presets.iter().filter_map(|preset| preset["name"].as_str()).collect();
    assert_eq!(names, ["standard-webhooks", "github", "slack", "stripe", "token"]);
    for preset in presets {
        let headers = preset["headers"].to_string();
        for credential in ["authorization", "cookie", "signature", "token"] {
            assert!(!headers.contains(credential), "{preset}");
        }
    }
}
