//! `roster.md` §17 for triggers: every state with its events for every source, what a replay sees, fingerprints.

use std::time::Duration;

use axum::http::Method;
use callboard_engine::Store;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::agents::{host, task};
use crate::given::{Reply, TestHost, workflow};
use crate::roster::sally;
use crate::triggers::{Hook, hook, send};

const OURS: &str = "/v1/host/callboard/trigger-subscriptions";
const WORKFLOWS: &str = "/v1/host/callboard/workflows";

/// A subscription of one source, as its registrant got it.
struct Bell {
    source: String,
    id: String,
    made: Value,
}

impl Bell {
    async fn hang(host: &TestHost, source: &str, workflow: &str, more: Value) -> Self {
        let policy = json!({ "maxAttempts": 2, "backoff": "fixed" });
        let mut body = json!({ "source": source, "workflowId": workflow, "retryPolicy": policy });
        for (name, value) in more.as_object().cloned().unwrap_or_default() {
            body[name] = value;
        }
        let reply = host.post(OURS, &body).send().await;
        assert_eq!(reply.status, 201, "{reply:?}");
        let id = reply.json["subscription"]["subscriptionId"].as_str().expect("an id").to_owned();
        Self { source: source.to_owned(), id, made: reply.json }
    }

    async fn ring(&self, host: &TestHost, number: u32) -> Reply {
        let bound = |name: &str| self.made["binding"][name].as_str().unwrap_or_default().to_owned();
        match self.source.as_str() {
            "webhook" => {
                let (url, secret) = (bound("ingestUrl"), bound("signingSecret"));
                let hook = Hook { id: self.id.clone(), url, secret };
                send(host, &hook, &format!("msg_0123456789_{number}"), &task().to_string()).await
            }
            "queue" => {
                let body = json!({ "id": format!("order-{number}"), "payload": task() });
                host.post(&format!("{OURS}/{}/deliver", self.id), &body).send().await
            }
            "form" => host.post(&bound("ingestUrl"), &task()).anonymous().send().await,
            "email" => {
                let mail = json!({ "messageId": format!("<{number}@x>"), "from": "a@x" });
                host.post(&bound("ingestAddress"), &mail).anonymous().send().await
            }
            other => unreachable!("{other} is advertised and cannot be rung"),
        }
    }

    async fn set(&self, host: &TestHost, state: &str) {
        let call = host.call(Method::PATCH, &format!("{OURS}/{}", self.id));
        assert_eq!(call.json(&json!({ "state": state })).send().await.status, 200);
    }

    async fn is(&self, host: &TestHost, state: &str) {
        let path = format!("/v1/trigger-subscriptions/{}", self.id);
        let read = host.get(&path).send().await.json;
        assert_eq!(read["subscription"]["state"], state, "{}", self.source);
    }

    /// What was told of the subscription outside of the runs that it started: `(from, to, reason)` or an outcome.
    async fn told(&self, host: &TestHost) -> Vec<Value> {
        let path = "/v1/host/callboard/runs?workflowId=callboard-trigger&limit=100";
        let runs = host.get(path).send().await.json["runs"].as_array().cloned().expect("runs");
        let mut told = Vec::new();
        for run in runs.iter().rev() {
            let events = host.end_of(run["runId"].as_str().expect("an id")).await;
            let of_this = events.iter().map(|event| (&event["type"], &event["payload"]));
            for (kind, payload) in of_this.filter(|(_, it)| it["subscriptionId"] == self.id) {
                told.push(match kind.as_str() {
                    Some("trigger.subscription.state.changed") => {
                        assert_eq!(payload["source"], self.source);
                        json!([payload["fromState"], payload["toState"], payload["reason"]])
                    }
                    Some("trigger.delivery.attempted") => payload["outcome"].clone(),
                    _ => continue,
                });
            }
        }
        told
    }
}

fn refused(reply: &Reply) {
    let found = (reply.status, reply.json["error"].as_str());
    assert_eq!(found, (409, Some("subscription_not_active")), "{reply:?}");
    assert_eq!(reply.json.get("runId"), None);
}

/// RFC 0083 §C: a source that discovery lists goes through all four states and tells both events.
#[tokio::test(start_paused = true)]
async fn every_source_goes_through_the_four_states_and_tells_of_each() {
    let document = host().await.get("/.well-known/openwop").anonymous().send().await.json;
    let sources = document["triggerBridge"]["sources"].as_array().cloned().expect("sources");
    assert_eq!(sources.len(), 4, "{sources:?}");
    for source in sources.iter().filter_map(Value::as_str) {
        let host = host().await;
        let member = sally(&host).await;
        let passing = workflow("passing", &[("only", "core.noop")]);
        assert_eq!(host.post(WORKFLOWS, &passing).send().await.status, 201);

        let bell = Bell::hang(&host, source, "passing", json!({})).await;
        bell.is(&host, "active").await;
        let started = bell.ring(&host, 1).await;
        assert_eq!(started.status, 202, "{source}: {started:?}");
        let events = host.end_of(&started.text_at("runId")).await;
        assert_eq!(events[1]["type"], "trigger.delivery.attempted", "{source}");
        assert_eq!(events[1]["payload"]["outcome"], "delivered", "{source}");

        bell.set(&host, "paused").await;
        bell.is(&host, "paused").await;
        refused(&bell.ring(&host, 2).await);
        bell.set(&host, "active").await;
        let moves =
            [json!(["active", "paused", "operator-paused"]), json!(["paused", "active", null])];
        assert_eq!(bell.told(&host).await, moves, "{source}");

        let of_member = Bell::hang(&host, source, "campaign", json!({ "rosterId": member })).await;
        let path = format!("/v1/host/callboard/roster/{member}");
        assert_eq!(host.call(Method::DELETE, &path).send().await.status, 204);
        refused(&of_member.ring(&host, 3).await);
        of_member.is(&host, "failed").await;
        let moved = [json!(["active", "failed", "source-removed"])];
        assert_eq!(of_member.told(&host).await, moved, "{source}");

        let gone = host.call(Method::DELETE, &format!("{WORKFLOWS}/passing")).send().await;
        assert_eq!(gone.status, 204);
        let kept = bell.ring(&host, 4).await;
        assert_eq!(kept.json["outcome"], "retrying", "{source}: {kept:?}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        bell.is(&host, "dead-lettered").await;
        refused(&bell.ring(&host, 5).await);
        let ends = [
            json!("retrying"),
            json!("dead-lettered"),
            json!(["active", "dead-lettered", "retry-exhausted"]),
        ];
        assert_eq!(bell.told(&host).await[2..], ends, "{source}");
    }
}

/// RFC 0099 §F: a replay re-reads what came in from the run's own record; nobody sends or fetches it again.
#[tokio::test(start_paused = true)]
async fn a_replay_sees_what_came_in_though_nothing_comes_in_any_more() {
    let host = TestHost::start().await;
    let mut shown = workflow("shown", &[("show", "core.identity")]);
    let said = json!({ "type": "expression", "expression": "ctx.triggerData" });
    shown["nodes"][0]["inputs"] = json!({ "input": said });
    assert_eq!(host.post(WORKFLOWS, &shown).send().await.status, 201);
    let hook = hook(&host, json!({ "workflowId": "shown" })).await;
    let started = send(&host, &hook, "msg_0123456789abcdef", r#"{"canary":"inbound-text"}"#).await;
    let source = started.text_at("runId");
    let told = |events: &[Value]| -> Vec<(Value, Value)> {
        let told = events.iter().map(|event| (event["type"].clone(), event["payload"].clone()));
        told.collect()
    };
    let events = host.end_of(&source).await;
    let is_shown = |(kind, payload): &(Value, Value)| {
        kind == "node.completed" && payload.to_string().contains("inbound-text")
    };
    assert!(told(&events).iter().any(is_shown), "{events:?}");
    let paused = host.call(Method::PATCH, &format!("{OURS}/{}", hook.id));
    assert_eq!(paused.json(&json!({ "state": "paused" })).send().await.status, 200);
    let runs = async || {
        let reply = host.get("/v1/host/callboard/runs?limit=100").send().await;
        reply.json["runs"].as_array().map_or(0, Vec::len)
    };
    let before = runs().await;
    let fork = format!("/v1/runs/{source}:fork");
    for mode in ["replay", "branch"] {
        let body = json!({ "fromSeq": 0, "mode": mode });
        let forked = host.post(&fork, &body).send().await;
        assert_eq!(forked.status, 201, "{forked:?}");
        let run = forked.text_at("runId");
        let again = host.end_of(&run).await;
        assert!(told(&again).iter().any(is_shown), "{mode}: {again:?}");
        if mode == "replay" {
            assert_eq!(told(&again), told(&events));
        }
        let kept = async |run: &str| {
            let opened = host.store.open(&run.into()).await.expect("a store").expect("a run");
            opened.birth.delivery.expect("a delivery").event
        };
        assert_eq!(kept(&run).await, kept(&source).await, "{mode}");
    }
    assert_eq!(runs().await, before + 2, "nothing was delivered again");
}

/// RFC 0083 §C: keyed by the row, so that equal secrets look unequal and none can be looked up in a table of digests.
#[tokio::test(start_paused = true)]
async fn a_fingerprint_is_keyed_by_its_subscription_and_cut_short() {
    let host = TestHost::start().await;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let keyed = |row: &str, secret: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(row.as_bytes()).expect("a key");
        mac.update(secret.as_bytes());
        hex(&mac.finalize().into_bytes())
    };
    let (one, other) = (hook(&host, json!({})).await, hook(&host, json!({})).await);
    for hook in [&one, &other] {
        let path = format!("/v1/trigger-subscriptions/{}", hook.id);
        let read = async || {
            let read = host.get(&path).send().await.json;
            read["subscription"]["secretFingerprint"].as_str().expect("a fingerprint").to_owned()
        };
        let shown = read().await;
        assert!((8..=16).contains(&shown.len()), "{shown}");
        assert!(keyed(&hook.id, &hook.secret).starts_with(&shown), "{shown}");
        assert!(!hex(&Sha256::digest(&hook.secret)).starts_with(&shown), "it is no plain digest");
        let rotated = host.post(&format!("{OURS}/{}/rotate-secret", hook.id), &json!({}));
        let rotated = rotated.send().await.json;
        let secret = rotated["binding"]["signingSecret"].as_str().expect("a secret");
        assert!(keyed(&hook.id, secret).starts_with(&read().await));
        assert_ne!(read().await, shown);
    }
    assert_ne!(keyed(&one.id, &one.secret)[..12], keyed(&other.id, &one.secret)[..12]);
}
