//! Conversations, and what comes into runs from outside: writes into channels, and what the seams set.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::expectations::Observed;
use super::session::Session;
use crate::wire::Request;

const SOON: Duration = Duration::from_secs(5);

/// The suite's conversations that answer themselves, with their turns.
const TALKS: [(&str, usize); 3] = [
    ("conformance-conversation-lifecycle", 1),
    ("conformance-conversation-replay", 3),
    ("conformance-conversation-vs-clarification", 1),
];
/// One that nobody answers but whoever is asked.
const ASKS: &str = "conformance-conversation-capability-negotiation";
const MUTATED: &str = "conformance-subworkflow-mid-run-mutation";

/// Every fixture that discovery must therefore list.
pub(crate) fn names() -> Vec<&'static str> {
    TALKS.iter().map(|(fixture, _)| *fixture).chain([ASKS, MUTATED]).collect()
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    let document = session.send(&Request::get("/.well-known/openwop")).await?.json()?;
    let advertised = || {
        ensure!(document["conversationPrimitive"] == true, "it is not");
        Ok(())
    };
    session.book.enter("discovery: conversations are advertised", advertised());
    for (fixture, turns) in TALKS {
        let outcome = talked(session, fixture, turns).await;
        session.book.enter(&format!("{fixture}: completed after {turns} turns, and told"), outcome);
    }
    let outcome = replayed(session).await;
    session.book.enter("conformance-conversation-replay: a replay holds the same turns", outcome);
    let outcome = asked(session).await;
    session.book.enter(&format!("{ASKS}: waits for an answer and completes"), outcome);
    let outcome = mutated(session).await;
    session.book.enter(&format!("{MUTATED}: the child keeps what it was given"), outcome);
    let outcome = refused(session).await;
    session.book.enter("capability-toggle: an inputMapping is refused by name", outcome);
    let outcome = written(session).await;
    session.book.enter("channels: writes from outside fold in the order of the log", outcome);
    let outcome = session.settle();
    session.book.enter("conversations: every body matches its schema", outcome);
    Ok(())
}

async fn talked(session: &mut Session, fixture: &str, turns: usize) -> Result<()> {
    let run = session.create(&json!({ "workflowId": fixture })).await?;
    let observed = session.observe(&run, SOON).await?;
    ensure!(observed.snapshot["status"] == "completed", "ended {}", observed.snapshot["status"]);
    observed.is_a_log()?;
    one_conversation(&observed, turns)
}

/// Opened after its suspension, then turn by turn, closed last; and no clarification anywhere.
fn one_conversation(observed: &Observed, turns: usize) -> Result<()> {
    let told: Vec<&Value> = observed
        .events
        .iter()
        .filter(|event| {
            event["type"].as_str().is_some_and(|kind| kind.starts_with("conversation."))
        })
        .collect();
    let kinds: Vec<&str> = told.iter().filter_map(|event| event["type"].as_str()).collect();
    ensure!(kinds.len() == turns + 2, "{kinds:?}");
    ensure!(kinds.first() == Some(&"conversation.opened"), "{kinds:?}");
    ensure!(kinds.last() == Some(&"conversation.closed"), "{kinds:?}");
    let id = &told[0]["payload"]["conversationId"];
    ensure!(told.iter().all(|event| event["payload"]["conversationId"] == *id), "ids differ");
    let indices: Vec<Option<u64>> =
        told[1..].iter().map(|event| event["payload"]["turnIndex"].as_u64()).collect();
    ensure!(indices.is_sorted() && indices.first() == Some(&Some(1)), "{indices:?}");
    let cause = observed.events.iter().find(|event| event["eventId"] == told[0]["causationId"]);
    let cause = cause.context("conversation.opened has no cause")?;
    ensure!(cause["type"] == "node.suspended", "caused by {}", cause["type"]);
    ensure!(cause["payload"]["reason"] == "conversation-input", "{cause}");
    let legacy = observed.kinds().iter().any(|kind| kind.starts_with("clarification."));
    ensure!(!legacy, "a clarification is told");
    Ok(())
}

async fn replayed(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": "conformance-conversation-replay" })).await?;
    let source = session.observe(&run, SOON).await?;
    let held = source.snapshot["channels"]["conversation"].as_array().context("no channel")?;
    ensure!(held.len() == 5, "{} turns in the channel", held.len());
    let fork =
        Request::post(format!("/v1/runs/{run}:fork"), &json!({ "fromSeq": 0, "mode": "replay" }));
    let fork = session.expect(201, fork).await?;
    let fork = fork["runId"].as_str().context("a fork without runId")?.to_owned();
    let again = session.observe(&fork, SOON).await?;
    ensure!(again.snapshot["status"] == "completed", "ended {}", again.snapshot["status"]);
    let (then, now) = (&source.snapshot["channels"], &again.snapshot["channels"]);
    ensure!(then == now, "{then} became {now}");
    Ok(())
}

async fn asked(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": ASKS })).await?;
    session.until(&run, "conversation.opened").await?;
    let snapshot = session.snapshot(&run).await?;
    ensure!(snapshot["status"] == "waiting-approval", "status {}", snapshot["status"]);
    ensure!(snapshot["currentNodeId"] == "convo", "it waits at {}", snapshot["currentNodeId"]);
    let inbox = Request::get(format!("/v1/host/callboard/inbox?runId={run}"));
    let inbox = session.expect(200, inbox).await?;
    ensure!(inbox["interrupts"][0]["kind"] == "conversation.exchange", "{inbox}");
    let answer = json!({ "resumeValue": "hello" });
    let taken = Request::post(format!("/v1/runs/{run}/interrupts/convo"), &answer);
    let taken = session.expect(200, taken).await?;
    ensure!(taken["status"] == "completed", "{taken}");
    one_conversation(&session.observe(&run, SOON).await?, 1)
}

async fn mutated(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": MUTATED })).await?;
    session.until(&run, "node.dispatched").await?;
    let parent = session.snapshot(&run).await?;
    let child = parent["childRuns"][0]["runId"].as_str().context("no child")?.to_owned();
    session.until(&child, "node.suspended").await?;
    let body = json!({ "variables": { "currentPrdId": "mutated-id" } });
    let set = Request::post(format!("/v1/host/sample/test/runs/{run}/variables"), &body);
    let set = session.expect(200, set).await?;
    ensure!(set["variables"]["currentPrdId"] == "mutated-id", "{set}");
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let accept = Request::post(format!("/v1/runs/{child}/interrupts/child-gate"), &accept);
    session.expect(200, accept).await?;
    let child = session.observe(&child, SOON).await?;
    ensure!(child.snapshot["status"] == "completed", "ended {}", child.snapshot["status"]);
    let kept = &child.snapshot["variables"]["receivedPrdId"];
    ensure!(kept == "seeded-id", "the child has {kept}");
    session.observe(&run, SOON).await.map(drop)
}

async fn refused(session: &mut Session) -> Result<()> {
    let toggle = |body: Value| Request::post("/v1/host/sample/test/capability-toggle", &body);
    let name = "subWorkflow.inputMapping";
    session.expect(200, toggle(json!({ "name": name, "value": false }))).await?;
    let workflow = json!({ "workflowId": "interop-refused", "nodes": [{
        "nodeId": "call", "typeId": "core.subWorkflow",
        "config": { "childWorkflowId": "some-child", "inputMapping": { "theirs": "ours" } },
    }] });
    let answer = session.ask(Request::post("/v1/host/sample/workflows", &workflow)).await?;
    session.expect(200, toggle(json!({ "reset": true }))).await?;
    let body = answer.json()?;
    ensure!(answer.status == 400 && body["error"] == "validation_error", "{body}");
    ensure!(body["details"]["requiredCapability"] == name, "{body}");
    Ok(())
}

async fn written(session: &mut Session) -> Result<()> {
    let definition = json!({
        "id": "interop-board", "name": "board", "version": "1.0",
        "nodes": [{ "id": "gate", "typeId": "core.approvalGate", "name": "gate",
            "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "channels": { "notes": { "reducer": "append" }, "current": { "reducer": "replace" } },
    });
    session.ask(Request::post("/v1/host/callboard/workflows", &definition)).await?;
    let run = session.create(&json!({ "workflowId": "interop-board" })).await?;
    session.until(&run, "node.suspended").await?;
    let write = |channel: &str, value: &str| {
        let body = json!({ "value": value, "sourceEngineId": "engine-7", "sourceRunId": "run_x" });
        Request::post(format!("/v1/host/callboard/runs/{run}/channels/{channel}"), &body)
    };
    for value in ["a", "b"] {
        session.expect(200, write("notes", value)).await?;
    }
    let forbidden = session.expect(400, write("current", "c")).await?;
    ensure!(forbidden["error"] == "channel_cross_engine_write_forbidden", "{forbidden}");
    ensure!(forbidden["details"]["reducer"] == "replace", "{forbidden}");
    let accept = json!({ "resumeValue": { "action": "accept" } });
    session.expect(200, Request::post(format!("/v1/runs/{run}/interrupts/gate"), &accept)).await?;
    let observed = session.observe(&run, SOON).await?;
    let held = &observed.snapshot["channels"]["notes"];
    ensure!(*held == json!(["a", "b"]), "{held}");
    let sources = observed.payloads("channel.written");
    ensure!(sources.iter().all(|told| told["sourceEngineId"] == "engine-7"), "{sources:?}");
    let late = session.expect(409, write("notes", "c")).await?;
    ensure!(late["error"] == "run_terminal", "{late}");
    Ok(())
}
