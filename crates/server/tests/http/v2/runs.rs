//! Runs: created, read, listed, cancelled, paused, forked, compared, in the words of the second major.

use axum::http::Method;
use serde_json::{Value, json};

use super::{KEY, bare, check, refused, segment};
use crate::given::{LIVE, OPS, READER, RIVAL, TestHost};

/// V-10, V-13, V-16, V-17, V-27, V-40; floor: era-key, era-stamp-universal.
#[tokio::test]
async fn a_run_is_the_same_under_both_majors() {
    let host = TestHost::start().await;
    let created = host.post("/runs", &json!({ "workflowId": "chain", "tags": ["t"] })).send().await;
    check::created(&created.json);
    let run = created.text_at("runId");
    assert!(run.starts_with("acme/run_"), "{run}");
    let told = host.second_end(&run).await;
    let first = host.end_of(bare(&run)).await;
    assert_eq!(told.len(), first.len());
    for (second, first) in told.iter().zip(&first) {
        assert_eq!(second["sequence"], first["sequence"]);
        assert_eq!(second["eventId"], first["eventId"]);
        assert_eq!(first["runId"], bare(&run));
        check::without_bare(&second["payload"], bare(&run));
    }
    let links = [created.text_at("eventsUrl") + "/poll", created.text_at("statusUrl")];
    for link in links {
        assert_eq!(host.get(&link).send().await.status, 200, "{link}");
    }
    let snapshot = host.second_snapshot(&run).await;
    check::without_bare(&snapshot, bare(&run));
    assert_eq!(snapshot["eventLogSchemaVersion"], 3);
    assert_eq!(snapshot["owner"], told[0]["payload"]["owner"]);
    let subject = &snapshot["owner"]["subject"];
    assert_eq!(subject["issuer"], "urn:callboard:api-key");
    assert_eq!(subject["lane"], "api-key");
    let old = host.get(&format!("/v1/runs/{}", bare(&run))).send().await.json;
    assert_eq!(old["runId"], bare(&run));
    assert_eq!(old["eventLogSchemaVersion"], 2);
    assert_eq!(old["owner"]["principal"], subject["subjectId"]);
    // And the other way round.
    let made = host.run("noop", json!({})).await;
    let bound = format!("acme/{made}");
    assert_eq!(host.second_snapshot(&bound).await["eventLogSchemaVersion"], 3);
    host.second_end(&bound).await;
}

/// V-11, V-12: on every operation that takes such an id.
#[tokio::test]
async fn an_id_is_taken_in_every_form_and_never_from_another_tenant() {
    let host = TestHost::start().await;
    let run = host.second_noop().await;
    host.second_end(&run).await;
    for form in [segment(&run), run.replace('/', "%2F"), run.replace('/', "~2f"), bare(&run).into()]
    {
        let reply = host.get(&format!("/runs/{form}")).send().await;
        assert_eq!((reply.status, &reply.json["runId"]), (200, &json!(run)), "{form}");
        let path = format!("/runs/{form}:diff?against={form}");
        assert_eq!(host.get(&path).send().await.json["a"], json!(run), "{path}");
    }
    for broken in ["~", "acme~2", "acme~zzrun"] {
        let reply = host.get(&format!("/runs/{broken}")).send().await;
        assert_eq!(refused(&reply), (400, "validation_error"), "{broken}");
    }
    let unknown = host.get("/runs/acme~2Frun_00000000000000").send().await;
    assert_eq!(refused(&unknown), (404, "not_found"));
    for id in [run.replace("acme", "rival"), "rival/run_00000000000000".into(), "x/y".into()] {
        let id = segment(&id);
        for (method, path) in [
            (Method::GET, format!("/runs/{id}")),
            (Method::GET, format!("/runs/{id}/events")),
            (Method::GET, format!("/runs/{id}/events/poll")),
            (Method::GET, format!("/runs/{id}/ancestry")),
            (Method::GET, format!("/runs/{id}:diff?against={}", segment(&run))),
            (Method::GET, format!("/runs/{}:diff?against={id}", segment(&run))),
            (Method::GET, format!("/runs/{id}/annotations")),
            (Method::POST, format!("/runs/{id}/cancel")),
            (Method::POST, format!("/runs/{id}:pause")),
            (Method::POST, format!("/runs/{id}:fork")),
            (Method::POST, format!("/runs/{id}/interrupts/gate")),
            (Method::DELETE, format!("/webhooks/{id}")),
            (Method::GET, format!("/trigger-subscriptions/{id}")),
            (Method::GET, format!("/trigger-subscriptions/{id}/dead-letters")),
        ] {
            let reply = host.call(method, &path).json(&json!({})).send().await;
            assert_eq!(refused(&reply), (403, "id_tenant_mismatch"), "{path}");
        }
    }
    // A bound id means nothing to the first major.
    for form in [segment(&run), run.replace('/', "%2F")] {
        assert_eq!(host.get(&format!("/v1/runs/{form}")).send().await.status, 404, "{form}");
    }
    let theirs = host.get(&format!("/runs/{}", bare(&run))).key(RIVAL).send().await;
    assert_eq!(refused(&theirs), (404, "not_found"));
}

/// V-15; floor: run-options-limits.
#[tokio::test]
async fn what_creates_a_run_is_closed_and_comes_back() {
    let host = TestHost::start().await;
    let create = |body: Value| host.post("/runs", &body);
    let many = vec!["t"; 101];
    for wrong in [
        json!({ "workflowId": "noop", "dance": 1 }),
        json!({ "workflowId": "noop", "tags": many }),
        json!({ "workflowId": "noop", "tags": ["x".repeat(257)] }),
        json!({ "workflowId": "noop", "configurable": { "recursionLimit": 1 } }),
        json!({ "workflowId": "noop", "configurable": { "version": 1, "recursionLimit": 1 } }),
        json!({ "workflowId": "noop", "configurable": { "version": 1, "run": { "runTimeoutMs": 0 } } }),
        json!({}),
    ] {
        assert_eq!(
            refused(&create(wrong.clone()).send().await),
            (400, "validation_error"),
            "{wrong}"
        );
    }
    let foreign = create(json!({ "workflowId": "noop", "tenantId": "rival" })).send().await;
    assert_eq!(refused(&foreign), (403, "forbidden"));
    let eval = create(json!({ "mode": "eval", "agentId": "a", "evalSuiteRef": "s" })).send().await;
    assert_eq!(refused(&eval), (422, "capability_not_provided"));
    let url = create(json!({ "workflowId": "noop", "callbackUrl": "ftp://x" })).send().await;
    assert_eq!(refused(&url), (400, "validation_error"));
    assert_eq!(url.json["details"]["field"], "callbackUrl");
    let broken = host.call(Method::POST, "/runs").header("content-type", "application/json");
    assert_eq!(refused(&broken.bytes("{").send().await), (400, "validation_error"));
    let options = json!({ "version": 1, "run": { "recursionLimit": 7 }, "extensions": { "acme": { "a": [1] } } });
    let body = json!({
        "workflowId": "noop", "tags": ["ü/ ✓", "a b"], "metadata": { "a": { "b": [1, null] } },
        "configurable": options, "tenantId": "acme", "inputs": null,
    });
    let run = host.second_run(body.clone()).await;
    let snapshot = host.second_snapshot(&run).await;
    for same in ["tags", "metadata", "configurable"] {
        assert_eq!(snapshot[same], body[same], "{same}");
    }
    let old = host.get(&format!("/v1/runs/{}", bare(&run))).send().await.json;
    assert_eq!(old["configurable"]["recursionLimit"], 7);
    let made =
        host.run_as(LIVE, json!({ "workflowId": "noop", "configurable": { "recursionLimit": 9 } }));
    let told = host.second_snapshot(&format!("acme/{}", made.await)).await;
    assert_eq!(told["configurable"], json!({ "version": 1, "run": { "recursionLimit": 9 } }));
}

/// §1: the names of headers, and §6.1 of a scope that is busy.
#[tokio::test]
async fn headers_have_the_names_of_their_major() {
    let host = TestHost::start().await;
    let body = json!({ "workflowId": "wait", "scopeId": "s" });
    let first = host.post("/runs", &body).header("openwop-dedup", "enforce").send().await;
    assert_eq!(first.status, 201);
    let busy = host.post("/runs", &body).header("openwop-dedup", "enforce").send().await;
    assert_eq!(refused(&busy), (409, "run_already_active"));
    assert_eq!(busy.json["details"]["activeRunId"], first.json["runId"]);
    assert!(busy.retry_after().is_some());
    let old_name = host.post("/runs", &body).header("x-dedup", "enforce").send().await;
    assert_eq!(old_name.status, 201, "the name of the first major means nothing here");
    let forced = host.post("/runs", &body).header("openwop-force-engine-version", "2").send().await;
    assert_eq!(refused(&forced), (403, "force_engine_version_forbidden"));
}

/// V-18.
#[tokio::test]
async fn runs_are_listed_in_pages_for_their_tenant_alone() {
    let host = TestHost::start().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(host.second_noop().await);
    }
    let waiting = host.second_run(json!({ "workflowId": "wait" })).await;
    made.push(waiting.clone());
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = host.get(&format!("/runs?limit=3{cursor}")).send().await.json;
        for run in page["runs"].as_array().expect("runs") {
            check::snapshot(run);
            seen.push(run["runId"].as_str().expect("an id").to_owned());
        }
        let Some(next) = page["nextCursor"].as_str() else { break };
        let stolen = host.get(&format!("/runs?cursor={next}")).key(RIVAL).send().await;
        assert_eq!(refused(&stolen), (400, "validation_error"));
        cursor = format!("&cursor={next}");
    }
    made.reverse();
    assert_eq!(seen, made);
    let all = host.get("/runs?limit=99999&resumable=true").send().await;
    assert_eq!(all.json["runs"].as_array().map(Vec::len), Some(4));
    let some = host.get("/runs?workflowId=wait").send().await.json;
    assert_eq!(some["runs"][0]["runId"], json!(waiting));
    assert_eq!(some["runs"].as_array().map(Vec::len), Some(1));
    for wrong in ["limit=0", "status=dancing", "cursor=%21", "cursor=eHg"] {
        let reply = host.get(&format!("/runs?{wrong}")).send().await;
        assert_eq!(refused(&reply), (400, "validation_error"), "{wrong}");
    }
    assert_eq!(host.get("/runs").key(RIVAL).send().await.json["runs"], json!([]));
    assert_eq!(host.get("/runs").key(OPS).send().await.json["runs"], json!([]));
    assert_eq!(host.get("/runs").key(READER).send().await.status, 200);
}

/// V-19; floor: run-cancel, run-bulk-cancel.
#[tokio::test]
async fn what_has_ended_is_not_cancelled_again() {
    let host = TestHost::start().await;
    let ended = host.second_noop().await;
    host.second_end(&ended).await;
    let cancel = |run: &str| host.post(&format!("/runs/{}/cancel", segment(run)), &json!({}));
    assert_eq!(refused(&cancel(&ended).send().await), (409, "run_terminal"));
    let old = host.post(&format!("/v1/runs/{}/cancel", bare(&ended)), &json!({})).send().await;
    assert_eq!(old.status, 200, "the first major goes on taking it for no mistake");
    let waiting = format!("acme/{}", host.waiting_run().await);
    let cancelled = cancel(&waiting).header("idempotency-key", KEY).send().await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!(cancelled.json["runId"], json!(waiting));
    let events = host.second_end(&waiting).await;
    assert_eq!(events.last().map(|event| &event["type"]), Some(&json!("run.cancelled")));
    assert_eq!(refused(&cancel(&waiting).send().await), (409, "run_terminal"));
    let again = cancel(&waiting).header("idempotency-key", KEY).send().await;
    assert_eq!((again.status, again.header("openwop-idempotent-replay")), (200, "true"));

    let own = format!("acme/{}", host.waiting_run().await);
    let asked = json!([own, "rival/run_00000000000000", ended, "acme/run_00000000000000", "a~"]);
    let reply = host.post("/runs:bulk-cancel", &json!({ "runIds": asked })).send().await;
    assert_eq!(reply.status, 200);
    let results = reply.json["results"].as_array().expect("results");
    let told: Vec<_> =
        results.iter().map(|one| (&one["runId"], &one["ok"], &one["error"]["error"])).collect();
    for (place, (ok, code)) in [
        (true, Value::Null),
        (false, json!("id_tenant_mismatch")),
        (false, json!("run_terminal")),
        (false, json!("not_found")),
        (false, json!("validation_error")),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(told[place], (&asked[place], &json!(ok), &code), "{place}");
    }
    let ids = vec!["acme/run_00000000000000"; 101];
    let many = host.post("/runs:bulk-cancel", &json!({ "runIds": ids })).send().await;
    assert_eq!(refused(&many), (400, "validation_error"));
    assert_eq!(many.json["details"]["maxRunIds"], 100);
}

/// V-20; floor: run-pause-resume.
#[tokio::test]
async fn a_run_is_paused_and_resumed() {
    let host = TestHost::start().await;
    let ended = host.second_noop().await;
    host.second_end(&ended).await;
    let act = |run: &str, verb: &str, body: Value| {
        host.post(&format!("/runs/{}:{verb}", segment(run)), &body)
    };
    for verb in ["pause", "resume"] {
        assert_eq!(refused(&act(&ended, verb, json!({})).send().await), (409, "run_terminal"));
    }
    let run = format!("acme/{}", host.waiting_run().await);
    let paused = act(&run, "pause", json!({ "drainPolicy": "immediate" })).send().await;
    assert_eq!((paused.status, &paused.json["status"]), (202, &json!("paused")), "{paused:?}");
    assert_eq!(paused.json["runId"], json!(run));
    let again = act(&run, "pause", json!({})).send().await;
    assert_eq!(refused(&again), (409, "run_state_conflict"));
    assert_eq!(again.json["details"]["runStatus"], "paused");
    let resumed = act(&run, "resume", json!({})).send().await;
    assert_eq!((resumed.status, &resumed.json["status"]), (202, &json!("running")));
    let reply = host.get(&format!("/runs/{}/events/poll", segment(&run))).send().await;
    check::polled(&reply.json);
    let names: Vec<&str> = reply.json["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["type"].as_str())
        .collect();
    let place = |name: &str| names.iter().position(|one| *one == name);
    assert!(
        place("run.paused") < place("run.resumed") && place("run.paused").is_some(),
        "{names:?}"
    );
    assert!(!names.contains(&"node.failed"));
}

/// V-21: a run begun through one major is forked through the other.
#[tokio::test]
async fn a_run_is_forked_compared_and_traced_back() {
    let host = TestHost::start().await;
    let source = format!("acme/{}", host.run("chain", json!({})).await);
    let told = host.second_end(&source).await;
    let fork = |body: Value| host.post(&format!("/runs/{}:fork", segment(&source)), &body);
    for (wrong, refusal) in [
        (json!({ "mode": "branch" }), (400, "validation_error")),
        (
            json!({ "mode": "replay", "runOptionsOverlay": { "tags": ["x"] } }),
            (400, "validation_error"),
        ),
        (json!({ "mode": "replay", "fromSeq": 999 }), (422, "fork_point_invalid")),
        (
            json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": { "configurable": { "model": "m" } } }),
            (400, "validation_error"),
        ),
    ] {
        assert_eq!(refused(&fork(wrong.clone()).send().await), refusal, "{wrong}");
    }
    let made = fork(json!({ "mode": "replay" })).send().await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json["sourceRunId"], json!(source));
    let forked = made.text_at("runId");
    assert_eq!(made.json["eventsUrl"], format!("/runs/{}/events", segment(&forked)));
    let replayed = host.second_end(&forked).await;
    assert_eq!(replayed.len(), told.len());
    assert_eq!(replayed[0]["payload"]["owner"], told[0]["payload"]["owner"]);
    let snapshot = host.second_snapshot(&forked).await;
    assert_eq!(snapshot["parentRunId"], json!(source));
    assert_eq!(snapshot["eventLogSchemaVersion"], 3);
    let ancestry = host.get(&format!("/runs/{}/ancestry", segment(&forked))).send().await.json;
    assert_eq!((&ancestry["runId"], &ancestry["parent"]), (&json!(forked), &Value::Null));
    let path = format!("/runs/{}:diff?against={}", segment(&source), segment(&forked));
    let diff = host.get(&path).send().await.json;
    assert_eq!((&diff["a"], &diff["b"]), (&json!(source), &json!(forked)));
    assert_eq!(
        (&diff["divergedAtSeq"], &diff["eventDiffs"]),
        (&Value::Null, &json!([])),
        "{diff:#}"
    );
    // The fork of another key is shown as its source's, and acts as its own.
    let other =
        host.post(&format!("/runs/{}:fork", segment(&source)), &json!({ "mode": "replay" }));
    let other = other.key(OPS).send().await;
    assert_eq!(refused(&other), (404, "not_found"));
}

/// V-27: by every door that a caller has.
#[tokio::test]
async fn every_door_stamps_the_era() {
    let host = TestHost::start().await;
    let fired = host.post(
        "/v1/host/callboard/trigger-subscriptions",
        &json!({ "source": "queue", "workflowId": "noop" }),
    );
    let id = fired.send().await.json["subscription"]["subscriptionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    let path = format!("/v1/host/callboard/trigger-subscriptions/{id}/deliver");
    let delivered = host.post(&path, &json!({ "id": "a" })).send().await.text_at("runId");
    let started = host.run("noop", json!({})).await;
    host.end_of(&started).await;
    let path = format!("/v1/runs/{started}:fork");
    let forked =
        host.post(&path, &json!({ "mode": "branch", "fromSeq": 1 })).send().await.text_at("runId");
    for run in [delivered, started, forked, bare(&host.second_noop().await).to_owned()] {
        let run = format!("acme/{run}");
        assert_eq!(host.second_snapshot(&run).await["eventLogSchemaVersion"], 3, "{run}");
        host.second_end(&run).await;
    }
}
