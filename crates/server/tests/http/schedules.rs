//! Schedules over HTTP, and the door of the suite (S-15).

use std::time::Duration;

use axum::http::Method;
use callboard_server::TestKeys;
use serde_json::{Value, json};

use crate::given::{
    LAB, LIVE, OPS, READER, RIVAL, Reply, Setup, TEST, TestHost, TestSeams, workflow,
};
use crate::observe::Lines;

const SCHEDULES: &str = "/v1/host/callboard/schedules";

async fn made(host: &TestHost, body: Value) -> String {
    let reply = host.post(SCHEDULES, &body).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.text_at("id")
}

async fn change(host: &TestHost, id: &str, body: Value) -> Reply {
    host.call(Method::PATCH, &format!("{SCHEDULES}/{id}")).json(&body).send().await
}

async fn runs(host: &TestHost) -> Vec<Value> {
    let reply = host.get("/v1/host/callboard/runs?limit=200").send().await;
    reply.json["runs"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_made_with_its_defaults_and_shown_in_plain_words() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop", "cron": "0 9 * * MON-FRI", "inputs": { "day": "x" } });
    let reply = host.post(SCHEDULES, &body).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let id = reply.text_at("id");
    let shown = host.get(&format!("{SCHEDULES}/{id}")).send().await.json;
    assert_eq!(shown, reply.json);
    for (field, value) in [
        ("timezone", json!("UTC")),
        ("overlap", json!("skip")),
        ("missedFirePolicy", json!("fire-once")),
        ("enabled", json!(true)),
        ("inputNames", json!(["day"])),
        ("nextFireAt", json!("2025-11-17T09:00:00.000Z")),
        ("description", json!("At 09:00, Monday to Friday (UTC)")),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    let next = host.get(&format!("{SCHEDULES}/{id}/next?count=2")).send().await.json;
    assert_eq!(next["next"], json!(["2025-11-17T09:00:00.000Z", "2025-11-18T09:00:00.000Z"]));
    let many = host.get(&format!("{SCHEDULES}/{id}/next?count=1000")).send().await.json;
    assert_eq!(many["next"].as_array().map(Vec::len), Some(1000));
}

#[tokio::test(start_paused = true)]
async fn a_slot_starts_a_run_whose_snapshot_says_which() {
    let host = TestHost::start().await;
    let id = made(&host, json!({ "workflowId": "noop", "cron": "*/10 * * * * *" })).await;
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    let runs = runs(&host).await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    let path = format!("/v1/runs/{}", runs[0]["runId"].as_str().expect("an id"));
    let snapshot = host.get(&path).send().await.json;
    let told = json!({ "scheduleId": id, "scheduledFor": "2025-11-16T00:00:10.000Z" });
    assert_eq!(snapshot["metadata"], told);
    assert_eq!(snapshot["owner"]["tenant"], "acme");
    let shown = host.get(&format!("{SCHEDULES}/{id}")).send().await.json;
    assert_eq!(shown["lastFire"]["outcome"], "fired");
    assert_eq!(shown["lastFire"]["runId"], runs[0]["runId"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_schedule_is_refused_by_name() {
    let host = TestHost::start().await;
    let cron = |cron: &str| json!({ "workflowId": "noop", "cron": cron });
    for (body, code, path) in [
        (cron("0 9 MON-FRI"), "validation_error", "cron"),
        (cron("61 * * * *"), "validation_error", "cron"),
        // Less than a minute needs the sixth field.
        (cron("*/0.5 * * * *"), "validation_error", "cron"),
        (cron("*/30s * * * *"), "validation_error", "cron"),
        (cron("@every 10s"), "validation_error", "cron"),
        (cron("* * * * * * *"), "validation_error", "cron"),
        (cron("0 0 30 2 *"), "validation_error", "cron"),
        (json!({ "workflowId": "noop" }), "validation_error", "cron"),
        (json!({ "workflowId": "nope", "cron": "0 9 * * *" }), "validation_error", "workflowId"),
        (
            json!({ "workflowId": "noop", "cron": "0 9 * * *", "timezone": "Mars/Olympus" }),
            "invalid_timezone",
            "timezone",
        ),
        (
            json!({ "workflowId": "noop", "cron": "0 9 * * *", "at": "2026-01-01T00:00:00Z" }),
            "validation_error",
            "at",
        ),
        (
            json!({ "workflowId": "noop", "at": "2026-01-01T00:00:00Z", "timezone": "UTC" }),
            "validation_error",
            "timezone",
        ),
        (
            json!({ "workflowId": "noop", "cron": "0 9 * * *", "every": 5 }),
            "validation_error",
            "every",
        ),
    ] {
        let reply = host.post(SCHEDULES, &body).send().await;
        assert_eq!(reply.status, 400, "{body} {reply:?}");
        assert_eq!(reply.json["error"], code, "{body}");
        assert_eq!(reply.json["details"]["path"], path, "{body} {reply:?}");
    }
    let past = host.post(SCHEDULES, &json!({ "workflowId": "noop", "at": "2020-01-01T00:00:00Z" }));
    assert_eq!(past.send().await.status, 400);
    let far = host.post(SCHEDULES, &json!({ "workflowId": "noop", "at": "2099-01-01T00:00:00Z" }));
    let far = far.send().await;
    assert_eq!((far.status, &far.json["error"]), (400, &json!("schedule_horizon_exceeded")));
    assert_eq!(far.json["details"]["maxFutureHorizon"], "P1826D");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_changed_paused_resumed_run_and_removed() {
    let host = TestHost::start().await;
    let id = made(&host, json!({ "workflowId": "noop", "cron": "*/10 * * * * *" })).await;
    let paused = change(&host, &id, json!({ "enabled": false })).await;
    assert_eq!((paused.status, &paused.json["enabled"]), (200, &json!(false)));
    assert_eq!(paused.json.get("nextFireAt"), None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(runs(&host).await.is_empty());
    let started = host.post(&format!("{SCHEDULES}/{id}/run-now"), &json!({}));
    let started = started.header("idempotency-key", "now").send().await;
    assert_eq!(started.status, 202, "{started:?}");
    let again = host.post(&format!("{SCHEDULES}/{id}/run-now"), &json!({}));
    let again = again.header("idempotency-key", "now").send().await;
    assert_eq!(again.json, started.json);
    assert_eq!(runs(&host).await.len(), 1);
    let zone = change(&host, &id, json!({ "timezone": "Asia/Tokyo", "overlap": "queue" })).await;
    assert_eq!(zone.json["timezone"], "Asia/Tokyo");
    assert_eq!(
        (&zone.json["cron"], &zone.json["overlap"]),
        (&json!("*/10 * * * * *"), &json!("queue"))
    );
    let moved = change(&host, &id, json!({ "cron": "0 9 * * *", "enabled": true })).await;
    assert_eq!(moved.json["timezone"], "Asia/Tokyo");
    assert_eq!(moved.json["nextFireAt"], "2025-11-17T00:00:00.000Z");
    let removed = host.call(Method::DELETE, &format!("{SCHEDULES}/{id}")).send().await;
    assert_eq!(removed.status, 204);
    assert_eq!(change(&host, &id, json!({ "enabled": true })).await.status, 404);
}

/// Whatever one tenant asks about another's schedule looks like asking about nothing.
#[tokio::test(start_paused = true)]
async fn a_schedule_of_others_and_none_look_the_same() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "noop", "cron": "0 9 * * *" });
    let reply = host.post(SCHEDULES, &body).key(OPS).send().await;
    let id = reply.text_at("id");
    for key in [RIVAL, TEST, LAB] {
        for (method, rest, body) in [
            (Method::GET, "", None),
            (Method::GET, "/next", None),
            (Method::PATCH, "", Some(json!({ "enabled": false }))),
            (Method::DELETE, "", None),
            (Method::POST, "/run-now", None),
        ] {
            let ask = |id: &str| {
                let call = host.call(method.clone(), &format!("{SCHEDULES}/{id}{rest}")).key(key);
                match &body {
                    Some(body) => call.json(body),
                    None => call,
                }
            };
            let (theirs, none) = (ask(&id).send().await, ask("sched_0").send().await);
            assert_eq!(theirs.status, 404, "{key} {method} {rest}");
            assert_eq!(theirs.json, none.json, "{key} {method} {rest}");
        }
        let listed = host.get(SCHEDULES).key(key).send().await.json;
        assert_eq!(listed["schedules"], json!([]), "{key}");
    }
    let refused = host.post(SCHEDULES, &body).key(READER).send().await;
    assert_eq!(
        (refused.status, &refused.json["details"]["scopeRequired"]),
        (403, &json!("triggers:write"))
    );
    assert_eq!(host.get(SCHEDULES).key(LIVE).send().await.json["schedules"][0]["id"], id.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_trigger_in_a_definition_is_a_schedule_that_only_the_definition_changes() {
    let host = TestHost::start().await;
    let mut definition = workflow("own", &[("only", "core.noop")]);
    let trigger =
        |config: Value| json!([{ "id": "nightly", "type": "schedule", "config": config }]);
    for (config, code, path) in [
        (json!({ "cron": "0 9 * *" }), "validation_error", "triggers[0].config.cron"),
        (json!({ "timezone": "UTC" }), "validation_error", "triggers[0].config"),
        (
            json!({ "cron": "0 9 * * *", "timezone": "Mars/Olympus" }),
            "invalid_timezone",
            "triggers[0].config.timezone",
        ),
    ] {
        definition["triggers"] = trigger(config);
        let reply = host.post("/v1/host/callboard/workflows", &definition).send().await;
        assert_eq!((reply.status, &reply.json["error"]), (400, &json!(code)), "{reply:?}");
        assert_eq!(reply.json["details"]["path"], path);
    }
    definition["triggers"] =
        trigger(json!({ "cron": "*/10 * * * * *", "missedFirePolicy": "fire-all" }));
    let reply = host.post("/v1/host/callboard/workflows", &definition).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let listed = host.get(SCHEDULES).send().await.json;
    let id = listed["schedules"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(listed["schedules"][0]["triggerId"], "nightly");
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    assert_eq!(runs(&host).await.len(), 1);
    let refused = change(&host, &id, json!({ "cron": "0 9 * * *" })).await;
    assert_eq!((refused.status, &refused.json["error"]), (409, &json!("schedule_reserved")));
    let refused = host.call(Method::DELETE, &format!("{SCHEDULES}/{id}")).send().await;
    assert_eq!(refused.status, 409);
    assert_eq!(change(&host, &id, json!({ "enabled": false })).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_list_goes_on_behind_its_cursor() {
    let host = TestHost::start().await;
    for _ in 0..3 {
        made(&host, json!({ "workflowId": "noop", "cron": "0 9 * * *" })).await;
    }
    let first = host.get(&format!("{SCHEDULES}?limit=2")).send().await.json;
    let cursor = first["nextCursor"].as_str().expect("a cursor");
    let rest = host.get(&format!("{SCHEDULES}?limit=2&cursor={cursor}")).send().await.json;
    assert_eq!(first["schedules"].as_array().map(Vec::len), Some(2));
    assert_eq!(rest["schedules"].as_array().map(Vec::len), Some(1));
    assert_eq!(rest.get("nextCursor"), None);
    let wrong = host.get(&format!("{SCHEDULES}?cursor=%00")).send().await;
    assert_eq!(wrong.status, 400);
}

/// A caller's key cannot stand for a slot: what it remembers is another table's.
#[tokio::test(start_paused = true)]
async fn an_idempotency_key_cannot_touch_a_slot() {
    let host = TestHost::start().await;
    let id = made(&host, json!({ "workflowId": "noop", "cron": "*/10 * * * * *" })).await;
    for key in [format!("{id}:1763251210000"), format!("{id}/2025-11-16T00:00:10.000Z")] {
        let body = json!({ "workflowId": "noop" });
        let reply = host.post("/v1/runs", &body).header("idempotency-key", &key).send().await;
        assert_eq!(reply.status, 201);
    }
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    assert_eq!(runs(&host).await.len(), 3);
}

#[tokio::test]
async fn s15_a_tick_fires_once_and_missed_ones_once_at_most() {
    let setup = Setup { seams: TestSeams::On, test_keys: TestKeys::All, ..Setup::default() };
    let host = TestHost::of(setup).await;
    let tick = async |body: Value| host.post("/v1/host/sample/scheduling/tick", &body).send().await;
    for body in [
        json!({ "scenario": "single-tick", "workflowId": "noop" }),
        json!({ "scenario": "missed-window", "missedTicks": 5, "workflowId": "noop" }),
    ] {
        let reply = tick(body.clone()).await;
        assert_eq!((reply.status, &reply.json["runsFired"]), (200, &json!(1)), "{body} {reply:?}");
    }
    assert_eq!(runs(&host).await.len(), 2);
    assert_eq!(tick(json!({ "scenario": "flood" })).await.status, 400);
}

#[tokio::test]
async fn discovery_says_what_schedules_can_do() {
    let host = TestHost::start().await;
    let document = host.get("/.well-known/openwop").anonymous().send().await.json;
    let scheduling = json!({
        "supported": true, "cron": true, "delayed": true, "calendar": false,
        "maxFutureHorizon": "P1826D",
    });
    assert_eq!(document["scheduling"], scheduling);
    assert_eq!(document["capabilities"]["scheduling"], scheduling);
}

#[tokio::test(start_paused = true)]
async fn only_what_was_done_is_audited_as_done() {
    let lines = Lines::of_the_process();
    let host = TestHost::start().await;
    let passing = workflow("passing", &[("only", "core.noop")]);
    host.post("/v1/host/callboard/workflows", &passing).send().await;
    let id = made(&host, json!({ "workflowId": "passing", "cron": "0 9 * * *" })).await;
    let by_hand = format!("{SCHEDULES}/{id}/run-now");
    let is_by_hand = |fields: &&Value| fields["message"] == "schedule run by hand";
    let times = || lines.audited().iter().filter(is_by_hand).count();
    assert_eq!(host.post(&by_hand, &json!({})).send().await.status, 202);
    assert_eq!(times(), 1);
    host.call(Method::DELETE, "/v1/host/callboard/workflows/passing").send().await;
    let refused = host.post(&by_hand, &json!({})).send().await;
    assert_eq!(refused.refusal(), (400, "validation_error"));
    assert_eq!(times(), 1, "{:?}", lines.audited());
}
