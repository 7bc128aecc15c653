//! V-27, V-13: what the birth record of a run says of its era, of the major that it was made through and of whose it is
//! shown as, by every door that starts runs.

use std::time::Duration;

use callboard_core::{Born, SubjectBasis};
use callboard_engine::{KeyMode, Scope, Store as _};
use callboard_protocol::Dialect;
use callboard_server::TestKeys;
use serde_json::{Value, json};

use super::{bare, check, segment};
use crate::agents::{self, task};
use crate::given::{LIVE, Setup, TEST, TestHost, TestSeams, workflow};
use crate::roster::sally;

const OURS: &str = "/v1/host/callboard";

/// The birth record as it is stored, and the same as the second major shows it.
async fn born(host: &TestHost, run: &str) -> Born {
    let run = bare(run);
    let scope = Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live };
    let found = host.store.find(&scope, &run.into()).await.expect("a store").expect("a run");
    let stamp = found.born.stamp.clone().expect("a stamp");
    assert_eq!(stamp.era, 3, "{run}");
    let snapshot = host.second_snapshot(run).await;
    assert_eq!(snapshot["eventLogSchemaVersion"], 3, "{run}");
    let issuer = match stamp.subject.basis {
        SubjectBasis::ApiKey => "urn:callboard:api-key",
        SubjectBasis::Host => "urn:callboard:host",
        SubjectBasis::Legacy => "urn:openwop:legacy",
    };
    let owner = &snapshot["owner"];
    assert_eq!(owner["subject"]["issuer"], issuer, "{run}");
    let events = host.second_end(run).await;
    assert_eq!(events[0]["payload"]["owner"], *owner, "{run}");
    check::owner(owner);
    found.born
}

fn told(born: &Born) -> (Dialect, SubjectBasis, Option<&str>) {
    let subject = born.stamp.as_ref().expect("a stamp");
    let principal = subject.subject.principal.as_ref().map(|principal| principal.as_str());
    (subject.dialect, subject.subject.basis, principal)
}

async fn create(host: &TestHost, major: Dialect, workflow: &str) -> String {
    match major {
        Dialect::V1 => host.run(workflow, json!({})).await,
        Dialect::V2 => bare(&host.second_run(json!({ "workflowId": workflow })).await).to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_created_run_keeps_the_major_that_made_it() {
    let host = TestHost::start().await;
    for major in [Dialect::V1, Dialect::V2] {
        let run = create(&host, major, "noop").await;
        host.end_of(&run).await;
        let born = born(&host, &run).await;
        let key = born.owner.principal.clone().expect("a principal");
        assert_eq!(told(&born), (major, SubjectBasis::ApiKey, Some(key.as_str())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_is_of_the_major_and_the_subject_of_its_parent() {
    let host = TestHost::start().await;
    let mut outer = workflow("outer", &[("call", "core.subWorkflow")]);
    outer["nodes"][0]["config"] = json!({ "workflowId": "chain" });
    let stored = host.post(&format!("{OURS}/workflows"), &outer).send().await;
    assert_eq!(stored.status, 201, "{stored:?}");
    for major in [Dialect::V1, Dialect::V2] {
        let parent = create(&host, major, "outer").await;
        let events = host.end_of(&parent).await;
        let dispatched = events.iter().find(|event| event["type"] == "node.dispatched");
        let child = dispatched.expect("a child")["payload"]["childRunId"].clone();
        let child = child.as_str().expect("an id");
        host.end_of(child).await;
        let (parent, child) = (born(&host, &parent).await, born(&host, child).await);
        assert_eq!(told(&child), told(&parent));
        assert_eq!(told(&child).0, major);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_of_the_major_that_forked_and_shows_its_source() {
    let host = TestHost::start().await;
    let source = create(&host, Dialect::V1, "noop").await;
    host.end_of(&source).await;
    let source_born = born(&host, &source).await;
    for mode in ["replay", "branch"] {
        let body = json!({ "mode": mode, "fromSeq": 1 });
        for (major, path) in [
            (Dialect::V1, format!("/v1/runs/{source}:fork")),
            (Dialect::V2, format!("/runs/acme~2F{source}:fork")),
        ] {
            let forked = host.post(&path, &body).send().await.text_at("runId");
            host.end_of(bare(&forked)).await;
            let fork = born(&host, &forked).await;
            let (_, basis, principal) = told(&source_born);
            assert_eq!(told(&fork), (major, basis, principal), "{mode}");
        }
    }
}

/// The era of a run from before stays with it, and its forks show the same legacy subject.
#[tokio::test]
async fn a_fork_of_an_old_run_is_of_this_era_and_shows_the_legacy_subject() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let events = json!([
        { "sequence": 0, "type": "run.started", "payload": { "workflowId": "noop", "inputs": {} } },
        { "sequence": 1, "type": "run.completed", "payload": { "outputs": {} } },
    ]);
    let seed = json!({ "eventLogSchemaVersion": 2, "status": "completed", "events": events });
    let seeded = host.post("/conformance/seams/sample/event-log/seed", &seed).key(TEST);
    let source = seeded.send().await.text_at("runId");
    let fork = json!({ "mode": "replay", "fromSeq": 1 });
    let forked = host.post(&format!("/runs/{}:fork", segment(&source)), &fork).key(TEST);
    let forked = forked.send().await.text_at("runId");
    let shown = async |run: &str| -> Value {
        host.get(&format!("/runs/{}", segment(run))).key(TEST).send().await.json
    };
    let (old, new) = (shown(&source).await, shown(&forked).await);
    assert_eq!(
        (&old["eventLogSchemaVersion"], &new["eventLogSchemaVersion"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(old["owner"]["subject"]["issuer"], "urn:openwop:legacy");
    assert_eq!(old["owner"], new["owner"]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_of_a_schedule_starts_as_whoever_made_the_schedule() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop", "cron": "*/10 * * * * *" });
    let made = host.post(&format!("{OURS}/schedules"), &body).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    let listed = host.get("/runs").send().await.json;
    let run = listed["runs"][0]["runId"].as_str().expect("a run").to_owned();
    host.end_of(bare(&run)).await;
    let own = host.run("noop", json!({})).await;
    host.end_of(&own).await;
    assert_eq!(told(&born(&host, &run).await), told(&born(&host, &own).await));
}

#[tokio::test(start_paused = true)]
async fn a_members_fire_a_mention_and_an_agent_start_as_whoever_asked() {
    let host = agents::host().await;
    let member = sally(&host).await;
    let fire = json!({ "workflowId": "campaign", "inputs": task() });
    let path = format!("{OURS}/roster/{}/fire", member.replace(':', "%3A"));
    let fired = host.post(&path, &fire).send().await;
    let said =
        host.post(&format!("{OURS}/chat"), &json!({ "text": "@sally: fix it" })).send().await;
    let agent = json!({ "agentId": agents::TRIAGER, "inputs": task() });
    let first = host.run_as(LIVE, agent.clone()).await;
    let second = host.second_run(agent).await;
    for (run, major) in [
        (fired.text_at("runId"), Dialect::V1),
        (said.text_at("runId"), Dialect::V1),
        (first, Dialect::V1),
        (bare(&second).to_owned(), Dialect::V2),
    ] {
        host.end_of(&run).await;
        let born = born(&host, &run).await;
        let (told_major, basis, by) = told(&born);
        assert_eq!((told_major, basis), (major, SubjectBasis::ApiKey), "{run}");
        assert!(by.is_some_and(|by| by.starts_with("key:")), "{by:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_to_a_trigger_starts_as_whoever_subscribed() {
    let host = TestHost::start().await;
    let body = json!({ "source": "queue", "workflowId": "noop" });
    let made = host.post(&format!("{OURS}/trigger-subscriptions"), &body).send().await;
    let id = made.json["subscription"]["subscriptionId"].as_str().expect("an id").to_owned();
    let path = format!("{OURS}/trigger-subscriptions/{id}/deliver");
    let run = host.post(&path, &json!({ "id": "a" })).send().await.text_at("runId");
    host.end_of(&run).await;
    let born = born(&host, &run).await;
    assert_eq!((told(&born).0, told(&born).1), (Dialect::V1, SubjectBasis::ApiKey));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_a_heartbeat_sees_starts_as_whoever_made_the_heartbeat() {
    let host = TestHost::of(Setup { seams: TestSeams::On, ..Setup::default() }).await;
    let mut run = Value::Null;
    for size in [1, 2] {
        let body = json!({ "heartbeatId": "era", "observedState": { "size": size },
            "simulateSlowMs": 0, "workflowId": "noop" });
        let looked = host.post("/v1/host/sample/heartbeat/tick", &body).send().await;
        assert_eq!(looked.status, 200, "{looked:?}");
        run = looked.json["runIds"][0].clone();
    }
    let run = run.as_str().expect("a run");
    host.end_of(run).await;
    let born = born(&host, run).await;
    assert_eq!((told(&born).0, told(&born).1), (Dialect::V1, SubjectBasis::ApiKey));
}
