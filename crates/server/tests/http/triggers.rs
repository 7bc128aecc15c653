//! The trigger bridge over HTTP: registration, signed posts, queues, dead letters, and the doors of the suite (S-14).

use std::time::Duration;

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_engine::Store;
use callboard_server::{ServerConfig, TestKeys};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::given::{LAB, OPS, READER, RIVAL, Reply, Setup, TEST, TestHost, TestSeams, workflow};

pub(crate) const SUBSCRIPTIONS: &str = "/v1/trigger-subscriptions";
pub(crate) const OURS: &str = "/v1/host/callboard/trigger-subscriptions";

/// A webhook subscription as its registrant got it.
pub(crate) struct Hook {
    pub(crate) id: String,
    pub(crate) url: String,
    pub(crate) secret: String,
}

pub(crate) async fn hook(host: &TestHost, more: Value) -> Hook {
    let mut body = json!({ "source": "webhook", "workflowId": "noop" });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        body[name] = value;
    }
    let reply = host.post(SUBSCRIPTIONS, &body).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let text = |pointer: &str| {
        reply.json.pointer(pointer).and_then(Value::as_str).expect(pointer).to_owned()
    };
    Hook {
        id: text("/subscription/subscriptionId"),
        url: text("/binding/ingestUrl"),
        secret: text("/binding/signingSecret"),
    }
}

fn signature(secret: &str, id: &str, at: i64, body: &str) -> String {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

async fn post(
    host: &TestHost,
    hook: &Hook,
    id: &str,
    at: i64,
    signature: &str,
    body: &str,
) -> Reply {
    host.call(Method::POST, &hook.url)
        .anonymous()
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", &at.to_string())
        .header("webhook-signature", signature)
        .header("authorization", "Bearer canary-credential")
        .bytes(body.to_owned())
        .send()
        .await
}

pub(crate) async fn send(host: &TestHost, hook: &Hook, id: &str, body: &str) -> Reply {
    let at = host.now().as_millis() / 1000;
    post(host, hook, id, at, &signature(&hook.secret, id, at, body), body).await
}

pub(crate) async fn queue(host: &TestHost, body: Value) -> String {
    let reply = host.post(OURS, &body).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json["subscription"]["subscriptionId"].as_str().expect("an id").to_owned()
}

pub(crate) async fn state(host: &TestHost, id: &str) -> String {
    let reply = host.get(&format!("{SUBSCRIPTIONS}/{id}")).send().await;
    reply.json["subscription"]["state"].as_str().expect("a state").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_signed_post_starts_one_run_and_its_repetition_none() {
    let host = TestHost::start().await;
    let hook = hook(&host, json!({})).await;
    let first = send(&host, &hook, "msg_0123456789abcdef", "{\"canary\":\"inbound-text\"}").await;
    assert_eq!((first.status, &first.json["outcome"]), (202, &json!("delivered")), "{first:?}");
    let again = send(&host, &hook, "msg_0123456789abcdef", "{\"canary\":\"inbound-text\"}").await;
    assert_eq!((again.status, &again.json["outcome"]), (200, &json!("duplicate")));
    assert_eq!(again.json["runId"], first.json["runId"]);
    let run = first.text_at("runId");
    let events = host.end_of(&run).await;
    assert_eq!(events[1]["type"], "trigger.delivery.attempted");
    assert_eq!(events[0]["causationId"], events[1]["eventId"]);
    let log = serde_json::to_string(&events).expect("JSON");
    for canary in ["inbound-text", "msg_0123456789abcdef", "canary-credential", "whsec_"] {
        assert!(!log.contains(canary), "{canary}");
    }
    let ancestry = host.get(&format!("/v1/runs/{run}/ancestry")).send().await.json;
    assert_eq!(ancestry["parent"], Value::Null);
}

/// RFC 0230: a refused post starts nothing, uses nothing up and moves nothing.
#[tokio::test(start_paused = true)]
async fn forged_skewed_and_missing_signatures_are_refused_and_leave_the_subscription_alone() {
    let host = TestHost::start().await;
    let hook = hook(&host, json!({})).await;
    let (id, body) = ("msg_0123456789abcdef", "{}");
    let now = host.now().as_millis() / 1000;
    let good = signature(&hook.secret, id, now, body);
    let old = signature(&hook.secret, id, now - 301, body);
    let ahead = signature(&hook.secret, id, now + 301, body);
    for (name, reply) in [
        ("forged", post(&host, &hook, id, now, "v1,AAAA", body).await),
        ("another body", post(&host, &hook, id, now, &good, "{\"x\":1}").await),
        ("another id", post(&host, &hook, "msg_fedcba9876543210", now, &good, body).await),
        ("too old", post(&host, &hook, id, now - 301, &old, body).await),
        ("too new", post(&host, &hook, id, now + 301, &ahead, body).await),
        ("unsigned", host.call(Method::POST, &hook.url).anonymous().bytes("{}").send().await),
    ] {
        assert_eq!(
            (reply.status, &reply.json["error"]),
            (401, &json!("signature_invalid")),
            "{name}"
        );
        assert_eq!(reply.json.get("runId"), None, "{name}");
        assert_eq!(state(&host, &hook.id).await, "active", "{name}");
    }
    let accepted = post(&host, &hook, id, now, &good, body).await;
    assert_eq!(accepted.status, 202, "the id is not used up: {accepted:?}");
    let letters = host.get(&format!("{SUBSCRIPTIONS}/{}/dead-letters", hook.id)).send().await;
    let deliveries = letters.json["deliveries"].as_array().cloned().unwrap_or_default();
    assert_eq!(deliveries.len(), 6);
    for letter in &deliveries {
        assert_eq!(letter["reason"], "verification_failed");
        assert_eq!(letter["attempt"]["outcome"], "dead-lettered");
        assert_eq!(letter.get("stateChange"), None);
    }
    let page = letters.json.to_string();
    assert!(!page.contains("whsec_") && !page.contains(&good) && !page.contains(id));
}

#[tokio::test(start_paused = true)]
async fn a_rotated_secret_works_beside_the_last_for_a_day() {
    let host = TestHost::start().await;
    let mut hook = hook(&host, json!({})).await;
    let rotated = host.post(&format!("{OURS}/{}/rotate-secret", hook.id), &json!({})).send().await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let secret = rotated.json["binding"]["signingSecret"].as_str().expect("a secret").to_owned();
    assert_eq!(send(&host, &hook, "msg_old_secret_0001", "{}").await.status, 202);
    let old = std::mem::replace(&mut hook.secret, secret);
    assert_eq!(send(&host, &hook, "msg_new_secret_0001", "{}").await.status, 202);
    tokio::time::sleep(Duration::from_secs(86_401)).await;
    assert_eq!(send(&host, &hook, "msg_new_secret_0002", "{}").await.status, 202);
    hook.secret = old;
    assert_eq!(send(&host, &hook, "msg_old_secret_0002", "{}").await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn the_secret_is_shown_once_and_reads_are_closed() {
    let host = TestHost::start().await;
    let hook = hook(&host, json!({})).await;
    let read = host.get(&format!("{SUBSCRIPTIONS}/{}", hook.id)).send().await.json;
    let mut keys: Vec<&String> =
        read["subscription"].as_object().expect("an object").keys().collect();
    keys.sort();
    let known =
        ["dedupEnabled", "retryPolicy", "secretFingerprint", "source", "state", "subscriptionId"];
    assert_eq!(keys, known);
    let list = host.get(SUBSCRIPTIONS).send().await.json;
    assert_eq!(list["subscriptions"][0], read["subscription"]);
    assert!(!list.to_string().contains("whsec_"));
    let body = json!({ "source": "webhook", "workflowId": "noop" });
    let made = host.post(SUBSCRIPTIONS, &body).header("idempotency-key", "k").send().await;
    let again = host.post(SUBSCRIPTIONS, &body).header("idempotency-key", "k").send().await;
    assert!(made.json.to_string().contains("whsec_") && !again.json.to_string().contains("whsec_"));
    assert_eq!(made.json["subscription"], again.json["subscription"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_registered_is_refused_by_name() {
    let host = TestHost::start().await;
    for (path, body, named) in [
        (SUBSCRIPTIONS, json!({ "source": "schedule", "workflowId": "noop" }), "source"),
        (SUBSCRIPTIONS, json!({ "source": "queue", "workflowId": "noop" }), "source"),
        (SUBSCRIPTIONS, json!({ "source": "webhook", "workflowId": "nope" }), "workflowId"),
        (
            SUBSCRIPTIONS,
            json!({ "source": "webhook", "workflowId": "noop", "rosterId": "x" }),
            "rosterId",
        ),
        (
            OURS,
            json!({ "source": "queue", "workflowId": "noop", "rosterId": "host:nobody" }),
            "rosterId",
        ),
        (
            SUBSCRIPTIONS,
            json!({ "source": "form", "workflowId": "noop", "verification": { "mode": "required" } }),
            "verification.mode",
        ),
        (
            SUBSCRIPTIONS,
            json!({ "source": "webhook", "workflowId": "noop", "retryPolicy": { "maxAttempts": 0 } }),
            "retryPolicy.maxAttempts",
        ),
    ] {
        let reply = host.post(path, &body).send().await;
        assert_eq!(
            (reply.status, &reply.json["details"]["path"]),
            (400, &json!(named)),
            "{reply:?}"
        );
    }
    let refused = host.post(OURS, &json!({})).key(READER).send().await;
    assert_eq!(refused.status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_queue_takes_each_thing_once_and_nothing_while_it_is_paused() {
    let host = TestHost::start().await;
    let id = queue(&host, json!({ "source": "queue", "workflowId": "noop" })).await;
    let put = async |thing: &str| {
        let body = json!({ "id": thing, "payload": { "n": 1 } });
        host.post(&format!("{OURS}/{id}/deliver"), &body).send().await
    };
    let first = put("order-1").await;
    assert_eq!((first.status, &first.json["outcome"]), (202, &json!("delivered")));
    let again = put("order-1").await;
    assert_eq!((again.status, &again.json["outcome"]), (200, &json!("duplicate")));
    assert_eq!(again.json["runId"], first.json["runId"]);
    let set = async |state: &str| {
        let call = host.call(Method::PATCH, &format!("{OURS}/{id}"));
        call.json(&json!({ "state": state })).send().await
    };
    assert_eq!(set("paused").await.json["subscription"]["state"], "paused");
    let refused = put("order-2").await;
    assert_eq!((refused.status, &refused.json["error"]), (409, &json!("subscription_not_active")));
    assert_eq!(set("active").await.status, 200);
    assert_eq!(put("order-2").await.status, 202);
    assert_eq!(set("failed").await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_whose_workflow_is_gone_is_retried_given_up_shown_and_played_again() {
    let host = TestHost::start().await;
    let definition = workflow("passing", &[("only", "core.noop")]);
    let workflows = "/v1/host/callboard/workflows";
    assert_eq!(host.post(workflows, &definition).send().await.status, 201);
    let policy = json!({ "maxAttempts": 3, "backoff": "fixed" });
    let id =
        queue(&host, json!({ "source": "queue", "workflowId": "passing", "retryPolicy": policy }))
            .await;
    let gone = host.call(Method::DELETE, &format!("{workflows}/passing")).send().await;
    assert_eq!(gone.status, 204);
    let body = json!({ "id": "order-1", "payload": "canary-payload" });
    let put = host.post(&format!("{OURS}/{id}/deliver"), &body).send().await;
    assert_eq!((put.status, &put.json["outcome"]), (202, &json!("retrying")), "{put:?}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(state(&host, &id).await, "dead-lettered");
    let page = host.get(&format!("{SUBSCRIPTIONS}/{id}/dead-letters")).send().await.json;
    let letter = &page["deliveries"][0];
    assert_eq!(letter["reason"], "retries_exhausted");
    assert_eq!(letter["attempt"]["attempt"], 3);
    assert_eq!(letter["stateChange"]["toState"], "dead-lettered");
    assert!(!page.to_string().contains("canary-payload"));
    let dead: callboard_protocol::Timestamp =
        letter["deadLetteredAt"].as_str().and_then(|at| at.parse().ok()).expect("a time");
    let until: callboard_protocol::Timestamp =
        letter["expiresAt"].as_str().and_then(|at| at.parse().ok()).expect("a time");
    assert_eq!(until.since(dead), Duration::from_secs(30 * 86_400));
    let delivery = letter["attemptEventId"].as_str().expect("an id");
    let replay = format!("{OURS}/{id}/dead-letters/{delivery}/replay");
    let too_soon = host.post(&replay, &json!({})).send().await;
    assert_eq!((too_soon.status, &too_soon.json["error"]), (422, &json!("delivery_not_startable")));
    host.post(workflows, &definition).send().await;
    let replayed = host.post(&replay, &json!({})).send().await;
    assert_eq!(replayed.status, 202, "{replayed:?}");
    host.end_of(&replayed.text_at("runId")).await;
    assert_eq!(host.post(&replay, &json!({})).send().await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_subscription_is_refused() {
    let host = TestHost::start().await;
    let (one, other) = (hook(&host, json!({})).await, hook(&host, json!({})).await);
    for _ in 0..2 {
        host.call(Method::POST, &one.url).anonymous().bytes("{}").send().await;
    }
    let page = host.get(&format!("{SUBSCRIPTIONS}/{}/dead-letters?limit=1", one.id)).send().await;
    let cursor = page.text_at("nextCursor");
    assert_eq!(page.json["cursor"], cursor.as_str(), "by either name");
    let rest = host.get(&format!("{SUBSCRIPTIONS}/{}/dead-letters?cursor={cursor}", one.id));
    assert_eq!(rest.send().await.json["deliveries"].as_array().map(Vec::len), Some(1));
    let foreign = host.get(&format!("{SUBSCRIPTIONS}/{}/dead-letters?cursor={cursor}", other.id));
    let foreign = foreign.send().await;
    assert_eq!((foreign.status, &foreign.json["error"]), (400, &json!("validation_error")));
}

/// Whatever one tenant asks about another's subscription looks like asking about nothing.
#[tokio::test(start_paused = true)]
async fn a_subscription_of_others_and_none_look_the_same() {
    let host = TestHost::start().await;
    let body = json!({ "source": "queue", "workflowId": "noop" });
    let made = host.post(OURS, &body).key(OPS).send().await;
    let id = made.json["subscription"]["subscriptionId"].as_str().expect("an id").to_owned();
    for key in [RIVAL, TEST, LAB] {
        for (method, path, body) in [
            (Method::GET, format!("{SUBSCRIPTIONS}/ID"), None),
            (Method::GET, format!("{SUBSCRIPTIONS}/ID/dead-letters"), None),
            (Method::PATCH, format!("{OURS}/ID"), Some(json!({ "state": "paused" }))),
            (Method::POST, format!("{OURS}/ID/deliver"), Some(json!({ "id": "a" }))),
            (Method::POST, format!("{OURS}/ID/rotate-secret"), None),
            (Method::POST, format!("{OURS}/ID/dead-letters/dlv_1/replay"), None),
        ] {
            let ask = |id: &str| {
                let call = host.call(method.clone(), &path.replace("ID", id)).key(key);
                match &body {
                    Some(body) => call.json(body),
                    None => call,
                }
            };
            let (theirs, none) = (ask(&id).send().await, ask("tsub_0").send().await);
            assert_eq!(theirs.status, 404, "{key} {method} {path}");
            assert_eq!(theirs.json, none.json, "{key} {method} {path}");
        }
        assert_eq!(host.get(SUBSCRIPTIONS).key(key).send().await.json["subscriptions"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn forms_and_mail_are_taken_by_address_and_what_they_point_at_is_left_alone() {
    let host = TestHost::start().await;
    let form = host.post(
        SUBSCRIPTIONS,
        &json!({ "source": "form", "workflowId": "noop",
        "inputMapping": { "who": "form.fields.name" } }),
    );
    let form = form.send().await.json;
    let url = form["binding"]["ingestUrl"].as_str().expect("an address");
    let sent = host.call(Method::POST, url).anonymous();
    let sent = sent.header("content-type", "application/x-www-form-urlencoded");
    let sent = sent.bytes("name=Ada+L&note=%3Cb%3E").send().await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let started = &host.end_of(&sent.text_at("runId")).await[0];
    assert_eq!(started["payload"]["inputs"], json!({ "who": "Ada L" }));
    let mail = host.post(SUBSCRIPTIONS, &json!({ "source": "email", "workflowId": "noop" }));
    let mail = mail.send().await.json;
    let address = mail["binding"]["ingestAddress"].as_str().expect("an address");
    let message = json!({ "messageId": "<1@x>", "from": "a@x", "text": "hi", "attachments": [
        { "filename": "in.txt", "contentBase64": "aGk=" },
        { "filename": "evil", "url": "http://169.254.169.254/latest" },
    ] });
    let first = host.post(address, &message).anonymous().send().await;
    assert_eq!(first.status, 202, "{first:?}");
    let run = first.text_at("runId").as_str().into();
    let kept = host.store.open(&run).await.expect("a store").expect("a run").birth.delivery;
    let mail = kept.expect("a delivery").event["email"].clone();
    assert_eq!(mail["attachments"].as_array().map(Vec::len), Some(1), "{mail}");
    assert_eq!(mail["attachments"][0]["filename"], "in.txt");
    assert!(!mail.to_string().contains("169.254"), "no address of a stranger is kept: {mail}");
    let again = host.post(address, &message).anonymous().send().await;
    assert_eq!((again.status, &again.json["runId"]), (200, &first.json["runId"]));
}

async fn address(host: &TestHost, body: Value, pointer: &str) -> String {
    let made = host.post(SUBSCRIPTIONS, &body).send().await.json;
    made.pointer(pointer).and_then(Value::as_str).expect("an address").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_form_is_read_whole_whatever_stands_in_it() {
    let host = TestHost::start().await;
    let mapping = json!({ "long": "form.fields.long", "last": "form.fields.last" });
    let form = json!({ "source": "form", "workflowId": "noop", "inputMapping": mapping });
    let url = address(&host, form, "/binding/ingestUrl").await;
    let long = "x".repeat(100_000);
    let sent = host.call(Method::POST, &url).anonymous();
    let sent = sent.header("content-type", "application/x-www-form-urlencoded");
    let sent = sent.bytes(format!("long={long}&last=a #1+%26%20b\n")).send().await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let started = &host.end_of(&sent.text_at("runId")).await[0];
    assert_eq!(started["payload"]["inputs"], json!({ "long": long, "last": "a #1 & b" }));
}

#[tokio::test(start_paused = true)]
async fn mails_without_a_message_id_are_not_taken_for_one_another() {
    let host = TestHost::start().await;
    let mail = json!({ "source": "email", "workflowId": "noop" });
    let address = address(&host, mail, "/binding/ingestAddress").await;
    for (nameless, text) in [("", "one"), ("", "two"), ("  ", "three")] {
        let message = json!({ "messageId": nameless, "from": "a@x", "text": text });
        let sent = host.post(&address, &message).anonymous().send().await;
        assert_eq!((sent.status, &sent.json["outcome"]), (202, &json!("delivered")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_with_a_spoiled_attachment_is_refused() {
    let host = TestHost::start().await;
    let mail = json!({ "source": "email", "workflowId": "noop" });
    let address = address(&host, mail, "/binding/ingestAddress").await;
    let files = json!([{ "contentBase64": "aGk=" }, { "contentBase64": "a*b" }]);
    let message = json!({ "messageId": "<1@x>", "from": "a@x", "attachments": files });
    let sent = host.post(&address, &message).anonymous().send().await;
    assert_eq!(sent.refusal(), (400, "validation_error"));
    assert_eq!(sent.json["details"]["path"], "attachments[1].contentBase64");
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_refused_before_anything_is_read() {
    let config = ServerConfig { max_body_bytes: 2048, ..ServerConfig::default() };
    let host = TestHost::configured(config).await;
    let hook = hook(&host, json!({})).await;
    let reply = send(&host, &hook, "msg_0123456789abcdef", &"x".repeat(3000)).await;
    assert_eq!((reply.status, &reply.json["error"]), (413, &json!("payload_too_large")));
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    assert_eq!(document["triggerBridge"]["ingestion"]["maxBodyBytes"], 2048);
}

/// S-14.
#[tokio::test]
async fn s14_the_three_scenarios_of_the_bridge() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let play =
        async |body: Value| host.post("/v1/host/sample/trigger-bridge/deliver", &body).send().await;
    let events = async |run: &str, kind: &str| {
        let path = format!("/v1/host/sample/test/runs/{run}/events?type={kind}");
        let reply = host.get(&path).send().await.json;
        reply["events"].as_array().cloned().unwrap_or_default()
    };
    for source in ["queue", "webhook", "email", "form", "schedule"] {
        let body = json!({ "scenario": "deliver", "workflowId": "noop", "source": source });
        let run = play(body).await.text_at("runId");
        let (started, attempt) =
            (events(&run, "run.started").await, events(&run, "trigger.delivery.attempted").await);
        assert_eq!(attempt[0]["payload"]["outcome"], "delivered", "{source}");
        assert_eq!(started[0]["causationId"], attempt[0]["eventId"], "{source}");
    }
    let twice =
        play(json!({ "scenario": "dedup", "dedupKey": "same-thing", "workflowId": "noop" })).await;
    assert_eq!(twice.json["deliveredCount"], 1, "{twice:?}");
    let told = events(&twice.text_at("runId"), "trigger.delivery.attempted").await;
    assert_eq!((told.len(), &told[0]["payload"]["dedupKey"]), (1, &json!("same-thing")));
    let unnamed = play(json!({ "scenario": "dedup", "workflowId": "noop" })).await;
    assert_eq!(unnamed.json["deliveredCount"], 1, "{unnamed:?}");
    let exhausted = play(json!({ "scenario": "exhaust" })).await;
    assert_eq!(exhausted.json["outcome"], "dead-lettered", "{exhausted:?}");
    let run = exhausted.text_at("runId");
    let attempts = events(&run, "trigger.delivery.attempted").await;
    assert_eq!(attempts.last().expect("an attempt")["payload"]["outcome"], "dead-lettered");
    let moved = events(&run, "trigger.subscription.state.changed").await;
    assert_eq!(moved[0]["payload"]["toState"], "dead-lettered");
    assert_eq!(moved[0]["payload"]["reason"], "retry-exhausted");
    let ingest = json!({ "source": "form", "workflowId": "noop", "body": { "a": "canary" } });
    let shown = host.post("/v1/host/sample/trigger-bridge/ingest", &ingest).send().await;
    assert_eq!(shown.json["triggerEvent"]["form"]["fields"]["a"], "canary", "{shown:?}");
    assert!(!shown.json["deliveryEvent"].to_string().contains("canary"));
}

/// S-14: posts as the suite describes them, taken in like everybody's.
#[tokio::test]
async fn s14_a_post_gives_a_run_no_address_and_no_credential() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let post = async |mut body: Value| {
        body["workflowId"] = json!("noop");
        host.post("/v1/host/sample/trigger-bridge/ingest", &body).send().await
    };
    let mail = post(json!({ "source": "email", "verification": { "mode": "none" },
        "attachmentUrl": "http://169.254.169.254/latest/meta-data/" }))
    .await;
    assert_eq!((mail.status, &mail.json["ssrfRefused"]), (200, &json!(true)), "{mail:?}");
    assert_eq!(mail.json["triggerEvent"]["email"]["attachments"], json!([]));
    let webhook = json!({ "method": "POST", "body": { "x": 1 }, "headers": {
        "Authorization": "Bearer canary", "X-Event-Type": "issue.created" } });
    let hook = |mode: &str| json!({ "source": "webhook", "verification": { "mode": mode }, "webhook": webhook });
    let shown = post(hook("none")).await;
    let content = &shown.json["triggerEvent"]["webhook"];
    assert_eq!(content["headers"], json!({ "x-event-type": "issue.created" }), "{shown:?}");
    assert_eq!(content["body"], json!({ "x": 1 }));
    assert!(!shown.json.to_string().contains("canary"), "{shown:?}");
    assert_eq!(post(hook("required")).await.refusal(), (401, "signature_invalid"));
}
