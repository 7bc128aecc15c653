//! What fires a member's workflow, source by source: attributed while the member is there, inert while it is paused.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use crate::agents::{TRIAGER, host, setup, task};
use crate::given::{LIVE, RIVAL, Reply, Setup, TestHost, workflow};
use crate::roster::{hire, patch, register, sally};
use crate::triggers::{Hook, hook, send};

const ROSTER: &str = "/v1/host/callboard/roster";
const SCHEDULES: &str = "/v1/host/callboard/schedules";
const SUBSCRIPTIONS: &str = "/v1/host/callboard/trigger-subscriptions";

/// Everything that fires a portfolio here.
const SOURCES: [&str; 7] =
    ["schedule", "webhook", "queue", "form", "email", "work", "callboard.manual"];

/// What became of a fire.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Started(String),
    Refused(u16, String),
    Nothing,
}

impl Outcome {
    fn of(reply: &Reply) -> Self {
        match reply.json["runId"].as_str() {
            Some(run) => Self::Started(run.to_owned()),
            None if reply.status >= 400 => Self::Refused(reply.status, reply.error().to_owned()),
            None => Self::Nothing,
        }
    }
}

/// What rings for a member: one subscription of each source.
struct Bells {
    member: String,
    is_named: bool,
    hook: Hook,
    queue: Value,
    form: Value,
    email: Value,
}

impl Bells {
    /// Subscriptions that name the member, or leave it to the host to find who owns the workflow.
    async fn hang(host: &TestHost, member: &str, is_named: bool) -> Self {
        let roster_id = is_named.then_some(member);
        let subscribe = async |source: &str, field: &str| {
            let mut body = json!({ "source": source, "workflowId": "campaign",
                "inputMapping": { "message": field } });
            if let Some(id) = roster_id {
                body["rosterId"] = json!(id);
            }
            let reply = host.post(SUBSCRIPTIONS, &body).send().await;
            assert_eq!(reply.status, 201, "{reply:?}");
            reply.json
        };
        let mapping = json!({ "workflowId": "campaign",
            "inputMapping": { "message": "webhook.body.message" } });
        Self {
            member: member.to_owned(),
            is_named,
            hook: hook(host, mapping).await,
            queue: subscribe("queue", "queue.message").await,
            form: subscribe("form", "form.fields.message").await,
            email: subscribe("email", "email.text").await,
        }
    }

    /// Sets one source off. The same number is the same thing.
    async fn ring(&self, host: &TestHost, source: &str, number: u32) -> Outcome {
        let text = |made: &Value, pointer: &str| {
            made.pointer(pointer).and_then(Value::as_str).expect(pointer).to_owned()
        };
        let message = "The printer is on fire.";
        let reply = match source {
            "schedule" => return self.tick(host).await,
            "webhook" => {
                let id = format!("msg_0123456789_{number}");
                send(host, &self.hook, &id, &task().to_string()).await
            }
            "queue" => {
                let id = text(&self.queue, "/subscription/subscriptionId");
                let body = json!({ "id": format!("order-{number}"), "payload": task() });
                host.post(&format!("{SUBSCRIPTIONS}/{id}/deliver"), &body).send().await
            }
            "form" => {
                let url = text(&self.form, "/binding/ingestUrl");
                host.post(&url, &task()).anonymous().send().await
            }
            "email" => {
                let address = text(&self.email, "/binding/ingestAddress");
                let mail = json!({ "messageId": format!("<{number}@x>"), "from": "a@x",
                    "text": message });
                host.post(&address, &mail).anonymous().send().await
            }
            "work" => {
                let body = json!({ "title": "Printer", "inputs": task() });
                host.post(&format!("{ROSTER}/{}/work", self.member), &body).send().await
            }
            "callboard.manual" => {
                let body = json!({ "workflowId": "campaign", "inputs": task() });
                host.post(&format!("{ROSTER}/{}/fire", self.member), &body).send().await
            }
            other => unreachable!("{other}"),
        };
        Outcome::of(&reply)
    }

    /// A schedule that fires once, in five seconds.
    async fn tick(&self, host: &TestHost) -> Outcome {
        let at = host.now().plus(Duration::from_secs(5));
        let mut body = json!({ "workflowId": "campaign", "at": at, "inputs": task() });
        if self.is_named {
            body["rosterId"] = json!(self.member);
        }
        let made = host.post(SCHEDULES, &body).send().await;
        assert_eq!(made.status, 201, "{made:?}");
        tokio::time::sleep(Duration::from_secs(6)).await;
        let path = format!("{SCHEDULES}/{}", made.text_at("id"));
        let last = host.get(&path).send().await.json["lastFire"].clone();
        match last["runId"].as_str() {
            Some(run) => Outcome::Started(run.to_owned()),
            None => {
                assert_eq!(last["outcome"], "skipped", "{last}");
                Outcome::Nothing
            }
        }
    }

    /// The subscription that a source comes over, where it comes over one.
    fn over(&self, source: &str) -> Option<String> {
        let made = match source {
            "webhook" => return Some(self.hook.id.clone()),
            "queue" => &self.queue,
            "form" => &self.form,
            "email" => &self.email,
            _ => return None,
        };
        made["subscription"]["subscriptionId"].as_str().map(str::to_owned)
    }
}

async fn runs(host: &TestHost) -> usize {
    let reply = host.get("/v1/host/callboard/runs?limit=100").send().await;
    reply.json["runs"].as_array().map_or(0, Vec::len)
}

/// `roster.md` §17: one attribution right after the start, the subscription of a fire over the bridge, and the delivery
/// as the cause of the run.
#[tokio::test(start_paused = true)]
async fn every_source_fires_for_the_member_and_says_so() {
    for is_named in [true, false] {
        let host = host().await;
        let id = sally(&host).await;
        let bells = Bells::hang(&host, &id, is_named).await;
        for source in SOURCES {
            let outcome = bells.ring(&host, source, 1).await;
            let Outcome::Started(run) = outcome else { panic!("{source}: {outcome:?}") };
            let events = host.end_of(&run).await;
            assert_eq!(events[1]["type"], "roster.run.initiated", "{source}");
            let told = &events[1]["payload"];
            let name = if source == "work" { "queue" } else { source };
            assert_eq!((&told["rosterId"], &told["triggerSource"]), (&json!(id), &json!(name)));
            let is_delivered = !matches!(source, "schedule" | "callboard.manual");
            let over = told["triggerSubscriptionId"].as_str().map(str::to_owned);
            assert_eq!(over.is_some(), is_delivered, "{source}");
            if source != "work" {
                assert_eq!(over, bells.over(source), "{source}");
            }
            let cause = events[0].get("causationId");
            assert_eq!(cause, events[2].get("eventId").filter(|_| is_delivered), "{source}");
            let count = events.iter().filter(|event| event["type"] == "roster.run.initiated");
            assert_eq!(count.count(), 1, "{source}");
        }
    }
}

/// `roster.md` §17: `enabled: false` stops every source, at the moment of the fire, and uses nothing up.
#[tokio::test(start_paused = true)]
async fn no_source_fires_for_a_paused_member() {
    for is_named in [true, false] {
        let host = host().await;
        let id = sally(&host).await;
        let bells = Bells::hang(&host, &id, is_named).await;
        let member = format!("{ROSTER}/{id}");
        patch(&host, &member, json!({ "enabled": false })).await;
        for source in SOURCES {
            let expected = match source {
                "schedule" | "work" => Outcome::Nothing,
                "callboard.manual" => Outcome::Refused(409, "member_paused".to_owned()),
                _ => Outcome::Refused(409, "subscription_not_active".to_owned()),
            };
            assert_eq!(bells.ring(&host, source, 1).await, expected, "{source}");
        }
        assert_eq!(runs(&host).await, 0, "no run began");
        patch(&host, &member, json!({ "enabled": true })).await;
        for source in SOURCES {
            let outcome = bells.ring(&host, source, 1).await;
            assert!(matches!(outcome, Outcome::Started(_)), "{source}: {outcome:?}");
        }
    }
}

/// Explicit dispatch by a person is no trigger.
#[tokio::test(start_paused = true)]
async fn a_person_can_set_a_paused_member_to_work() {
    let host = host().await;
    let id = sally(&host).await;
    register(&host, LIVE, "named", &id).await;
    patch(&host, &format!("{ROSTER}/{id}"), json!({ "enabled": false })).await;
    let alone = host.post("/v1/runs", &json!({ "agentId": id, "inputs": task() })).send().await;
    let node = host.post("/v1/runs", &json!({ "workflowId": "named", "inputs": task() }));
    let chat = host.post("/v1/host/callboard/chat", &json!({ "text": "@Sally It burns." }));
    for reply in [alone, node.send().await, chat.send().await] {
        assert_eq!(reply.status, 201, "{reply:?}");
        let events = host.end_of(&reply.text_at("runId")).await;
        let told = &events[1]["payload"];
        assert_eq!(
            (&told["rosterId"], &told["triggerSource"]),
            (&json!(id), &json!("callboard.manual"))
        );
    }
}

/// A workflow that nobody owns and a node of which names somebody.
#[tokio::test(start_paused = true)]
async fn a_trigger_that_would_set_a_paused_member_to_work_fires_nothing() {
    let host = host().await;
    let id = sally(&host).await;
    register(&host, LIVE, "named", &id).await;
    let body = json!({ "source": "queue", "workflowId": "named",
        "inputMapping": { "message": "queue.message" } });
    let queue = host.post(SUBSCRIPTIONS, &body).send().await.json;
    let queue = queue["subscription"]["subscriptionId"].as_str().expect("an id").to_owned();
    let path = format!("{SUBSCRIPTIONS}/{queue}/deliver");
    let thing = json!({ "id": "order-1", "payload": task() });
    let member = format!("{ROSTER}/{id}");
    patch(&host, &member, json!({ "enabled": false })).await;
    let refused = host.post(&path, &thing).send().await;
    assert_eq!(refused.refusal(), (409, "subscription_not_active"));
    patch(&host, &member, json!({ "enabled": true })).await;
    let run = host.post(&path, &thing).send().await.text_at("runId");
    let told = host.end_of(&run).await[1]["payload"].clone();
    assert_eq!((&told["rosterId"], &told["triggerSource"]), (&json!(id), &json!("queue")));
    assert_eq!(told["triggerSubscriptionId"], json!(queue));
}

/// A subscription whose member is gone, or has lost the workflow, fails and says so; nobody takes its place.
#[tokio::test(start_paused = true)]
async fn a_subscription_of_a_member_that_is_gone_fails() {
    for is_dismissed in [true, false] {
        let host = host().await;
        let id = sally(&host).await;
        let bells = Bells::hang(&host, &id, true).await;
        let member = format!("{ROSTER}/{id}");
        let changed = match is_dismissed {
            true => host.call(Method::DELETE, &member).send().await.status,
            false => patch(&host, &member, json!({ "workflows": [] })).await.status,
        };
        assert!(matches!(changed, 200 | 204));
        for _ in 0..2 {
            let refused = Outcome::Refused(409, "subscription_not_active".to_owned());
            assert_eq!(bells.ring(&host, "queue", 1).await, refused);
        }
        let queue = bells.over("queue").expect("an id");
        let read = host.get(&format!("/v1/trigger-subscriptions/{queue}")).send().await.json;
        assert_eq!(read["subscription"]["state"], "failed");
        let told = host.get("/v1/host/callboard/runs?workflowId=callboard-trigger").send().await;
        let told = told.json["runs"].as_array().cloned().unwrap_or_default();
        // Whoever leaves fails all of hers at once; a lost workflow is found out by what comes in.
        let failed = if is_dismissed { 3 } else { 1 };
        assert_eq!(told.len(), failed, "told of once each");
        let events = host.end_of(told[0]["runId"].as_str().expect("an id")).await;
        let moved =
            events.iter().find(|event| event["type"] == "trigger.subscription.state.changed");
        let moved = &moved.expect("a change")["payload"];
        assert_eq!(
            (&moved["toState"], &moved["reason"]),
            (&json!("failed"), &json!("source-removed"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_subscription_takes_no_post() {
    let host = host().await;
    register(&host, LIVE, "passing", TRIAGER).await;
    let more =
        json!({ "workflowId": "passing", "retryPolicy": { "maxAttempts": 1, "backoff": "none" } });
    let hook = hook(&host, more).await;
    let removed = host.call(Method::DELETE, "/v1/host/callboard/workflows/passing").send().await;
    assert_eq!(removed.status, 204);
    let waits = send(&host, &hook, "msg_0123456789_1", "{}").await;
    assert_eq!((waits.status, &waits.json["outcome"]), (202, &json!("retrying")), "{waits:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let late = send(&host, &hook, "msg_0123456789_2", "{}").await;
    assert_eq!(late.refusal(), (409, "subscription_not_active"));
    assert_eq!(late.json["details"]["state"], "dead-lettered");
}

/// RFC 0086 §D: members bring no trigger type of their own.
#[tokio::test(start_paused = true)]
async fn no_trigger_type_is_new() {
    let host = host().await;
    for kind in ["roster", "kanban", "work"] {
        let mut definition = workflow("own", &[("only", "core.noop")]);
        definition["triggers"] = json!([{ "id": "t", "type": kind }]);
        let reply = host.post("/v1/host/callboard/workflows", &definition).send().await;
        assert_eq!(reply.status, 400, "{kind}: {reply:?}");
    }
}

/// RFC 0086 §F: what is advertised fires, and nothing else does.
#[tokio::test(start_paused = true)]
async fn the_advertised_sources_are_those_that_fire() {
    let host = host().await;
    let discovery = host.get("/.well-known/openwop").anonymous().send().await.json;
    let roster = &discovery["agents"]["roster"];
    let mut advertised: Vec<&str> = roster["portfolioTriggerSources"]
        .as_array()
        .expect("sources")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    advertised.sort_unstable();
    let fired = ["email", "form", "queue", "schedule", "webhook"];
    let own = ["callboard.heartbeat", "callboard.manual"];
    assert_eq!(advertised, [&own[..], &fired].concat());
    let runtime = &discovery["agents"]["manifestRuntime"];
    assert_eq!(
        (&runtime["supported"], &runtime["installScope"]),
        (&json!(true), &roster["installScope"])
    );
}

/// What the host loaded for everybody fires where somebody owns it, and for nobody's tenant where nobody does.
#[tokio::test(start_paused = true)]
async fn a_loaded_schedule_fires_in_the_tenants_whose_members_own_it() {
    let mut digest = workflow("digest", &[("only", "core.noop")]);
    digest["triggers"] = json!([{ "id": "often", "type": "schedule",
        "config": { "cron": "*/10 * * * * *" } }]);
    let host = TestHost::of(Setup { workflows: vec![digest], ..setup() }).await;
    let schedules = async |key: &str| {
        let listed = host.get(SCHEDULES).key(key).send().await.json["schedules"].clone();
        listed.as_array().map_or(0, Vec::len)
    };
    assert_eq!((schedules(LIVE).await, schedules(RIVAL).await), (0, 0));
    let body = json!({ "persona": "Sally", "agentRef": { "agentId": TRIAGER },
        "workflows": ["digest"] });
    let id = hire(&host, body).await.text_at("rosterId");
    assert_eq!((schedules(LIVE).await, schedules(RIVAL).await), (1, 0));
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    let listed = host.get("/v1/host/callboard/runs?workflowId=digest").send().await.json;
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["runs"][0]["rosterId"], json!(id));
    assert_eq!(listed["runs"][0]["triggerSource"], "schedule");
    assert_eq!(host.call(Method::DELETE, &format!("{ROSTER}/{id}")).send().await.status, 204);
    assert_eq!((schedules(LIVE).await, schedules(RIVAL).await), (0, 0));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(runs(&host).await, 1, "nothing fires for a member that is gone");
}
