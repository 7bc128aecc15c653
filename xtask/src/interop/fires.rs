//! Sources of runs: schedules and trigger subscriptions, with every body and event they make.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::STRANGER;
use super::expectations::Observed;
use super::session::Session;
use crate::wire::{Answer, Request};

const WITHIN: Duration = Duration::from_secs(30);
const SCHEDULES: &str = "/v1/host/callboard/schedules";
const SUBSCRIPTIONS: &str = "/v1/trigger-subscriptions";
const OURS: &str = "/v1/host/callboard/trigger-subscriptions";
const WORKFLOW: &str = "conformance-noop";
/// What no event of the bridge may hold.
const CONTENT: [&str; 7] =
    ["body", "headers", "payload", "secret", "credentials", "token", "apiKey"];
const CANARY: &str = "canary-4c1e";

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let outcome = scheduled(session).await;
    session.book.enter("fires: a schedule with seconds starts runs of its own", outcome);
    let outcome = posted(session).await;
    session.book.enter("fires: a signed post is delivered once, and its run says so", outcome);
    let outcome = taken_in(session).await;
    session.book.enter("fires: a run is given a trigger event of its source", outcome);
    let outcome = moved(session).await;
    session.book.enter("fires: a subscription's changes and dead letters are told", outcome);
    let outcome = given_up(session).await;
    session.book.enter("fires: a run that is given up says so, and can be forked", outcome);
    let outcome = unknown(session).await;
    session.book.enter("fires: a stranger learns nothing of a subscription or a schedule", outcome);
    let outcome = session.settle();
    session.book.enter("fires: every body matches its schema", outcome);
    Ok(())
}

/// The newest run that a question finds, once there is one.
async fn first_run(session: &mut Session, query: &str) -> Result<String> {
    let started = Instant::now();
    while started.elapsed() < WITHIN {
        let path = format!("/v1/host/callboard/runs?{query}&limit=1");
        let listed = session.expect(200, Request::get(path)).await?;
        if let Some(run) = listed["runs"][0]["runId"].as_str() {
            return Ok(run.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("no run with {query}")
}

async fn scheduled(session: &mut Session) -> Result<()> {
    let definition = json!({
        "id": "interop-scheduled", "name": "Scheduled", "version": "1.0",
        "nodes": [{ "id": "only", "typeId": "core.noop", "name": "Only",
            "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} }],
        "edges": [], "variables": [], "metadata": {}, "settings": {},
        "triggers": [{ "id": "often", "type": "schedule", "enabled": true,
            "config": { "cron": "* * * * * *", "timezone": "Europe/Berlin" } }],
    });
    session.note("workflow-definition", &definition);
    let path = "/v1/host/callboard/workflows";
    session.expect(201, Request::post(path, &definition)).await?;
    let run = first_run(session, "workflowId=interop-scheduled").await?;
    let removed = format!("{path}/interop-scheduled");
    session.ask(Request::get(removed).method("DELETE")).await?;
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    let told = &observed.snapshot["metadata"];
    ensure!(told["scheduleId"].is_string() && told["scheduledFor"].is_string(), "{told}");
    for (cron, zone, code) in [
        ("0 9 MON-FRI", "UTC", "validation_error"),
        ("0 9 * * *", "Mars/Olympus", "invalid_timezone"),
        ("*/30s * * * *", "UTC", "validation_error"),
    ] {
        let body = json!({ "workflowId": WORKFLOW, "cron": cron, "timezone": zone });
        let refused = session.expect(400, Request::post(SCHEDULES, &body)).await?;
        ensure!(refused["error"] == code, "{refused}");
    }
    let far = json!({ "workflowId": WORKFLOW, "at": "2099-01-01T00:00:00Z" });
    let refused = session.expect(400, Request::post(SCHEDULES, &far)).await?;
    ensure!(refused["error"] == "schedule_horizon_exceeded", "{refused}");
    Ok(())
}

/// Registers a subscription as the protocol has it, and answers it with its binding.
async fn register(session: &mut Session, source: &str) -> Result<Value> {
    let body = json!({ "source": source, "workflowId": WORKFLOW, "dedupEnabled": true,
        "retryPolicy": { "maxAttempts": 2, "backoff": "none" } });
    session.note("trigger-subscription-registration", &body);
    let made = session.expect(201, Request::post(SUBSCRIPTIONS, &body)).await?;
    session.note("trigger-subscription", &made["subscription"]);
    Ok(made)
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}: {value}"))
}

async fn post(session: &mut Session, made: &Value, id: &str, seconds_off: i64) -> Result<Answer> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let at = i64::try_from(now)? + seconds_off;
    let body = json!({ "note": CANARY }).to_string();
    let secret = text(made, "/binding/signingSecret")?;
    let key = STANDARD.decode(secret.trim_start_matches("whsec_"))?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key)?;
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    let url = text(made, "/binding/ingestUrl")?;
    let request = Request::post(url, &Value::Null)
        .header("webhook-id", id)
        .header("webhook-timestamp", &at.to_string())
        .header("webhook-signature", &signature)
        .raw(body);
    session.send(&request).await
}

async fn posted(session: &mut Session) -> Result<()> {
    let made = register(session, "webhook").await?;
    let id = text(&made, "/subscription/subscriptionId")?.to_owned();
    let thing = "msg_interop_0123456789";
    for seconds_off in [-310, 310] {
        let refused = post(session, &made, thing, seconds_off).await?;
        ensure!(refused.status == 401 && refused.json()?["error"] == "signature_invalid");
    }
    let first = post(session, &made, thing, 0).await?;
    ensure!(first.status == 202, "{}", first.text());
    let run = first.json()?["runId"].as_str().context("no run")?.to_owned();
    let again = post(session, &made, thing, 0).await?;
    let duplicate = json!({ "outcome": "duplicate", "runId": run });
    ensure!(again.status == 200 && again.json()? == duplicate, "{}", again.text());
    let observed = session.observe(&run, WITHIN).await?;
    observed.is_a_log()?;
    told_without_content(&observed)?;
    let told = observed.only("trigger.delivery.attempted")?;
    ensure!(told["subscriptionId"] == id.as_str() && told["outcome"] == "delivered", "{told}");
    let place = observed.kinds().iter().position(|kind| *kind == "trigger.delivery.attempted");
    let attempt = &observed.events[place.context("not told")?];
    let cause = &observed.events[0]["causationId"];
    ensure!(*cause == attempt["eventId"], "{cause} is not the delivery");
    let ancestry = session.expect(200, Request::get(format!("/v1/runs/{run}/ancestry"))).await?;
    session.note("run-ancestry-response", &ancestry);
    let whole = format!("/v1/host/callboard/runs/{run}/ancestry");
    let whole = session.expect(200, Request::get(whole)).await?;
    ensure!(whole["delivery"]["deliveryId"] == *cause, "{whole}");
    let read = session.expect(200, Request::get(format!("{SUBSCRIPTIONS}/{id}"))).await?;
    session.note("trigger-subscription", &read["subscription"]);
    ensure!(read["subscription"]["state"] == "active", "{read}");
    ensure!(!read.to_string().contains("whsec_"), "a secret is shown twice");
    let letters = format!("{SUBSCRIPTIONS}/{id}/dead-letters");
    let letters = session.expect(200, Request::get(letters)).await?;
    let letters = letters["deliveries"].as_array().context("no letters")?;
    ensure!(letters.len() == 2, "{letters:?}");
    for letter in letters {
        ensure!(letter["reason"] == "verification_failed", "{letter}");
        session.note("trigger.delivery.attempted", &letter["attempt"]);
    }
    Ok(())
}

fn told_without_content(observed: &Observed) -> Result<()> {
    for kind in ["trigger.delivery.attempted", "trigger.subscription.state.changed"] {
        for payload in observed.payloads(kind) {
            ensure!(CONTENT.iter().all(|name| payload.get(name).is_none()), "content: {payload}");
        }
    }
    let log = json!(observed.events).to_string();
    ensure!(!log.contains(CANARY), "the log holds what came in");
    Ok(())
}

/// Through the suite's test endpoint, which shows what no other shows.
async fn taken_in(session: &mut Session) -> Result<()> {
    let mail = json!({ "messageId": "<1@x>", "from": "a@x", "to": ["b@x"], "subject": "Hi",
        "text": CANARY, "attachments": [
            { "filename": "in.txt", "mediaType": "text/plain", "contentBase64": "aGk=" },
            { "filename": "inside", "url": "http://169.254.169.254/latest" },
        ] });
    for (source, body) in
        [("webhook", json!({ "n": 1 })), ("form", json!({ "who": CANARY })), ("email", mail)]
    {
        let door = "/v1/host/sample/trigger-bridge/ingest";
        let body = json!({ "source": source, "body": body, "workflowId": WORKFLOW });
        let shown = session.expect(200, Request::post(door, &body)).await?;
        let event = &shown["triggerEvent"];
        session.note("trigger-event", event);
        session.note_event(&shown["deliveryEvent"]);
        ensure!(event["deliveryId"] == shown["deliveryEvent"]["eventId"], "{shown}");
        ensure!(shown["ssrfRefused"] == json!(source == "email"), "{shown}");
        ensure!(!shown.to_string().contains("169.254"), "an address inside was kept");
        let run = text(&shown, "/runId")?.to_owned();
        told_without_content(&session.observe(&run, WITHIN).await?)?;
    }
    Ok(())
}

async fn moved(session: &mut Session) -> Result<()> {
    let made = register(session, "webhook").await?;
    let id = text(&made, "/subscription/subscriptionId")?.to_owned();
    for state in ["paused", "active"] {
        let change = Request::post(format!("{OURS}/{id}"), &json!({ "state": state }));
        let changed = session.expect(200, change.method("PATCH")).await?;
        session.note("trigger-subscription", &changed["subscription"]);
    }
    let run = first_run(session, &format!("workflowId=callboard-trigger&tag={id}")).await?;
    let observed = session.observe(&run, WITHIN).await?;
    let told = observed.only("trigger.subscription.state.changed")?;
    ensure!(told["toState"] == "active" && told["fromState"] == "paused", "{told}");
    let door = "/v1/host/sample/trigger-bridge/deliver";
    let body = json!({ "scenario": "exhaust" });
    let exhausted = session.expect(200, Request::post(door, &body)).await?;
    let observed = session.observe(text(&exhausted, "/runId")?, WITHIN).await?;
    told_without_content(&observed)?;
    let last = observed.payloads("trigger.delivery.attempted");
    ensure!(last.last().is_some_and(|last| last["outcome"] == "dead-lettered"), "{last:?}");
    let told = observed.only("trigger.subscription.state.changed")?;
    ensure!(told["reason"] == "retry-exhausted", "{told}");
    let body = json!({ "scenario": "dedup", "dedupKey": "interop-key", "source": "queue" });
    let twice = session.expect(200, Request::post(door, &body)).await?;
    let observed = session.observe(text(&twice, "/runId")?, WITHIN).await?;
    let told = observed.only("trigger.delivery.attempted")?;
    ensure!(told["dedupKey"] == "interop-key" && told["outcome"] == "delivered", "{told}");
    let body = json!({ "scenario": "deliver", "source": "schedule" });
    let delivered = session.expect(200, Request::post(door, &body)).await?;
    session.observe(text(&delivered, "/runId")?, WITHIN).await?.is_a_log()?;
    let given_up = text(&exhausted, "/subscriptionId")?;
    let letters = format!("{SUBSCRIPTIONS}/{given_up}/dead-letters");
    let letters = session.expect(200, Request::get(letters)).await?;
    let letter = &letters["deliveries"][0];
    ensure!(letter["reason"] == "retries_exhausted", "{letter}");
    let names: Vec<&String> = letter.as_object().into_iter().flat_map(|it| it.keys()).collect();
    let known = "attempt attemptEventId deadLetteredAt expiresAt reason stateChange subscriptionId";
    ensure!(names.iter().all(|name| known.split(' ').any(|it| it == *name)), "{letter}");
    session.note("trigger.delivery.attempted", &letter["attempt"]);
    session.note("trigger.subscription.state.changed", &letter["stateChange"]);
    Ok(())
}

/// RFC 0053.
async fn given_up(session: &mut Session) -> Result<()> {
    let door = "/v1/host/sample/deadletter/exhaust";
    let body = json!({ "scenario": "fork-after-dead-letter" });
    let shown = session.expect(200, Request::post(door, &body)).await?;
    session.note_event(&shown["event"]);
    ensure!(shown["event"]["payload"]["attempts"] == 2, "{shown}");
    ensure!(shown["forkEligible"] == true, "{shown}");
    for run in ["/runId", "/forkRunId"] {
        let observed = session.observe(text(&shown, run)?, WITHIN).await?;
        observed.in_order(&["node.failed", "run.dead_lettered", "run.failed"])?;
    }
    Ok(())
}

async fn unknown(session: &mut Session) -> Result<()> {
    let made = register(session, "form").await?;
    let subscription = text(&made, "/subscription/subscriptionId")?.to_owned();
    let body = json!({ "workflowId": WORKFLOW, "cron": "0 9 * * *" });
    let schedule = session.expect(201, Request::post(SCHEDULES, &body)).await?;
    let schedule = text(&schedule, "/id")?.to_owned();
    for (path, ours, nobodys) in [
        (format!("{SUBSCRIPTIONS}/ID"), &subscription, "tsub_0"),
        (format!("{SUBSCRIPTIONS}/ID/dead-letters"), &subscription, "tsub_0"),
        (format!("{SCHEDULES}/ID"), &schedule, "sched_0"),
        (format!("{SCHEDULES}/ID/next"), &schedule, "sched_0"),
    ] {
        let theirs = Request::get(path.replace("ID", ours)).bearer(STRANGER);
        let none = Request::get(path.replace("ID", nobodys)).bearer(STRANGER);
        let (theirs, none) = (session.send(&theirs).await?, session.send(&none).await?);
        ensure!(theirs.status == 404 && theirs.body == none.body, "a stranger learns of {path}");
    }
    Ok(())
}
