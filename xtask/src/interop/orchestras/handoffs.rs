//! M-03, M-04, M-12…M-16, M-20, M-21: decisions that are carried out, and their outcomes.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{SOON, completed, ended, enter, of_kind};
use crate::interop::expectations::Observed;
use crate::interop::session::Session;
use crate::wire::Request;

const LOOP: &str = "conformance-dispatch-loop";
const DISPATCH: &str = "conformance-orchestrator-dispatch";
const TERMINATE: &str = "conformance-orchestrator-terminate";
const INPUTS: &str = "conformance-dispatch-input-mapping";
const UNSET: &str = "conformance-dispatch-input-mapping-no-default";
const OUTPUTS: &str = "conformance-dispatch-output-mapping";
const CROSS: &str = "conformance-dispatch-cross-worker-handoff";
const OVERRIDE: &str = "conformance-dispatch-per-worker-override";
const CHAIN: &str = "conformance-multi-agent-handoff";
const FAILS: &str = "conformance-dispatch-deterministic-fail-child";
const WAITS: &str = "conformance-dispatch-cancellable-child";

pub(super) fn names() -> Vec<&'static str> {
    vec![
        LOOP,
        DISPATCH,
        TERMINATE,
        INPUTS,
        UNSET,
        "conformance-dispatch-input-mapping-child",
        OUTPUTS,
        "conformance-dispatch-output-mapping-child",
        CROSS,
        "conformance-dispatch-cross-worker-handoff-child-a",
        "conformance-dispatch-cross-worker-handoff-child-b",
        OVERRIDE,
        CHAIN,
        "conformance-multi-agent-handoff-child",
        FAILS,
        WAITS,
    ]
}

pub(super) async fn check(session: &mut Session) {
    for (fixture, kinds) in [
        (LOOP, ["next-worker", "terminate"].as_slice()),
        (DISPATCH, &["next-worker", "terminate"]),
        (TERMINATE, &["terminate"]),
    ] {
        let outcome = decided(session, fixture, kinds).await;
        enter(session, &format!("{fixture}: decides {} and completes", kinds.join(", ")), outcome);
    }
    for (fixture, given) in [(INPUTS, json!({ "childGreeting": "Alice" })), (UNSET, json!({}))] {
        let outcome = given_to_child(session, fixture, &[given]).await;
        enter(session, &format!("{fixture}: the child gets what is mapped"), outcome);
    }
    let outcome = given_to_child(session, CROSS, &[json!({}), json!({ "input": "hello" })]).await;
    enter(session, &format!("{CROSS}: what one leaves behind the next one gets"), outcome);
    let mapped = [json!({ "input": "default-x-value" }), json!({ "input": "shared-value" })];
    let outcome = given_to_child(session, OVERRIDE, &mapped).await;
    enter(session, &format!("{OVERRIDE}: a worker's own mapping goes first"), outcome);
    let outcome = harvested(session).await;
    enter(session, &format!("{OUTPUTS}: the parent takes what is mapped"), outcome);
    let outcome = chained(session).await;
    enter(session, &format!("{CHAIN}: four events, each answering the one before"), outcome);
    for (worker, phase) in [(FAILS, "child.failed"), (WAITS, "child.cancelled")] {
        let outcome = left_nothing(session, worker, phase).await;
        enter(session, &format!("{worker}: nothing is taken from it"), outcome);
    }
    let outcome = refused(session).await;
    enter(session, "capability-toggle: a mapping of a dispatch is refused by name", outcome);
    let outcome = fanned_out(session).await;
    enter(session, "dispatch/fanout: three workers side by side are joined", outcome);
}

async fn decided(session: &mut Session, fixture: &str, kinds: &[&str]) -> Result<()> {
    let run = completed(session, fixture).await?;
    let told = run.payloads("runOrchestrator.decided");
    let decisions: Vec<&str> =
        told.iter().filter_map(|payload| payload["decision"]["kind"].as_str()).collect();
    ensure!(decisions == kinds, "{decisions:?}");
    let agent = told[0]["agentId"].as_str().context("no agentId")?;
    ensure!(agent.chars().count() >= 3, "{agent}");
    let shown = &run.snapshot["runOrchestrator"]["agentId"];
    ensure!(shown == agent, "the snapshot shows {shown}");
    ensure!(told.iter().all(|payload| payload["agentId"] == agent), "agents differ");
    Ok(())
}

/// The inputs of the children, in the order in which they were started.
async fn given_to_child(session: &mut Session, fixture: &str, given: &[Value]) -> Result<()> {
    let run = completed(session, fixture).await?;
    let started = run.payloads("node.dispatched");
    ensure!(started.len() == given.len(), "{} children", started.len());
    for (child, given) in started.iter().zip(given) {
        let id = child["childRunId"].as_str().context("no childRunId")?;
        let snapshot = session.snapshot(id).await?;
        ensure!(snapshot["inputs"] == *given, "{id} got {}", snapshot["inputs"]);
        ensure!(snapshot["workflowId"] == child["childWorkflowId"], "{child}");
        let ancestry = Request::get(format!("/v1/runs/{id}/ancestry"));
        let ancestry = session.expect(200, ancestry).await?;
        session.note("run-ancestry-response", &ancestry);
        ensure!(ancestry["parent"]["cause"] == "core.dispatch", "{ancestry}");
    }
    Ok(())
}

async fn harvested(session: &mut Session) -> Result<()> {
    let run = completed(session, OUTPUTS).await?;
    ensure!(run.snapshot["variables"]["parentResult"] == "done", "{}", run.snapshot["variables"]);
    Ok(())
}

async fn chained(session: &mut Session) -> Result<()> {
    let run = completed(session, CHAIN).await?;
    let chain = of_kind(&run.events, "core.workflowChain.event");
    let phases: Vec<&str> =
        chain.iter().filter_map(|event| event["payload"]["phase"].as_str()).collect();
    let expected = ["dispatch.began", "dispatch.succeeded", "child.completed", "output.harvested"];
    ensure!(phases == expected, "{phases:?}");
    let decided = of_kind(&run.events, "runOrchestrator.decided");
    let causes = decided[..1].iter().chain(&chain[..3]);
    for (event, cause) in chain.iter().zip(causes) {
        ensure!(event["causationId"] == cause["eventId"], "{event} does not answer {cause}");
    }
    ensure!(chain[3]["payload"]["harvestedKeys"] == json!(["parentResult"]), "{}", chain[3]);
    ensure!(chain[0]["payload"].get("childRunId").is_none(), "{}", chain[0]);
    let dispatched = of_kind(&run.events, "node.dispatched");
    ensure!(dispatched[0]["causationId"] == decided[0]["eventId"], "{}", dispatched[0]);
    Ok(())
}

/// A parent in the suite's few words, whose child is cancelled while it works or fails by itself.
async fn left_nothing(session: &mut Session, worker: &str, phase: &str) -> Result<()> {
    let id = format!("interop-{worker}");
    let body = json!({ "workflowId": id, "nodes": [
        { "nodeId": "supervisor", "typeId": "core.orchestrator.supervisor", "config":
            { "mockDispatchPlan": [{ "kind": "next-worker", "nextWorkerIds": [worker] }] } },
        { "nodeId": "dispatch", "typeId": "core.dispatch",
            "config": { "outputMapping": { "parentResult": "childOutcome" } } },
    ] });
    session.expect(201, Request::post("/v1/host/sample/workflows", &body)).await?;
    let run = session.create(&json!({ "workflowId": id })).await?;
    if phase == "child.cancelled" {
        let log = session.follow(&run, SOON, |page| is_told(page, "node.dispatched")).await?;
        let child = of_kind(&log, "node.dispatched")[0]["payload"]["childRunId"].clone();
        let child = child.as_str().context("no childRunId")?;
        let cancel = Request::post(format!("/v1/runs/{child}/cancel"), &json!({}));
        session.expect(200, cancel).await?;
    }
    let run: Observed = ended(session, &run, "failed").await?;
    let phases: Vec<&Value> =
        run.payloads("core.workflowChain.event").iter().map(|told| &told["phase"]).collect();
    ensure!(phases == ["dispatch.began", "dispatch.succeeded", phase], "{phases:?}");
    ensure!(run.snapshot["variables"].get("parentResult").is_none(), "it was taken");
    Ok(())
}

fn is_told(page: &Value, kind: &str) -> bool {
    page["events"].as_array().is_some_and(|events| !of_kind(events, kind).is_empty())
}

/// M-12, S-05.
async fn refused(session: &mut Session) -> Result<()> {
    let toggle = "/v1/host/sample/test/capability-toggle";
    let off = json!({ "name": "agents.dispatchMapping", "value": false });
    session.expect(200, Request::post(toggle, &off)).await?;
    let body = json!({ "workflowId": "interop-mapping", "nodes": [
        { "nodeId": "s", "typeId": "core.orchestrator.supervisor",
            "config": { "mockDispatchPlan": [{ "kind": "terminate" }] } },
        { "nodeId": "d", "typeId": "core.dispatch", "config": { "inputMapping": { "a": "b" } } },
    ] });
    let register = || Request::post("/v1/host/sample/workflows", &body);
    let refused = session.expect(400, register()).await?;
    ensure!(refused["error"] == "validation_error", "{refused}");
    let named = &refused["details"]["requiredCapability"];
    ensure!(named == "agents.dispatchMapping", "{refused}");
    session.expect(200, Request::post(toggle, &json!({ "reset": true }))).await?;
    session.expect(201, register()).await.map(drop)
}

async fn fanned_out(session: &mut Session) -> Result<()> {
    let path = "/v1/host/sample/dispatch/fanout";
    let body = json!({
        "nextWorkerIds": ["conformance.child.a", "conformance.child.b", "conformance.child.c"],
        "config": { "fanOutPolicy": "parallel",
            "joinPolicy": { "mode": "wait-all", "onChildFailure": "collect" } },
    });
    let joined = session.expect(200, Request::post(path, &body)).await?;
    ensure!(joined["joinOutcome"] == "satisfied", "{joined}");
    ensure!(joined["children"].as_array().is_some_and(|all| all.len() == 3), "{joined}");
    ensure!(joined["mergeOrder"].as_array().is_some_and(|all| all.len() == 3), "{joined}");
    let run = joined["runId"].as_str().context("no runId")?;
    session.observe(run, SOON).await?;
    let wrong = json!({ "nextWorkerIds": ["a", "b"],
        "config": { "fanOutPolicy": "parallel", "joinPolicy": { "mode": "quorum" } } });
    session.expect(400, Request::post(path, &wrong)).await.map(drop)
}
