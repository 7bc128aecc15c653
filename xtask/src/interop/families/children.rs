//! F43–F48: the shipped fixtures whose nodes run other workflows.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{SOON, cancel, enter, until};
use crate::interop::STRANGER;
use crate::interop::expectations::Observed;
use crate::interop::session::Session;
use crate::wire::Request;

const PARENT: &str = "conformance-subworkflow-parent";
const MAPPING: &str = "conformance-subworkflow-input-mapping";
const UNSET: &str = "conformance-subworkflow-input-mapping-no-default";
const MUTATION: &str = "conformance-subworkflow-mid-run-mutation";
const CASCADE: &str = "conformance-interrupt-parent-child-cancel";

/// Every fixture that discovery must therefore list.
pub(crate) fn names() -> Vec<&'static str> {
    vec![
        PARENT,
        "conformance-subworkflow-child",
        MAPPING,
        UNSET,
        "conformance-subworkflow-input-mapping-child",
        MUTATION,
        "conformance-subworkflow-mid-run-mutation-child",
        CASCADE,
        "conformance-interrupt-parent-child-cancel-child",
    ]
}

pub(super) async fn check(session: &mut Session) {
    let outcome = called(session).await;
    enter(session, &format!("{PARENT}: each side names the other, each log is its own"), outcome);
    for (fixture, what, value) in [
        (MAPPING, "the parent's value goes before the child's default", Some("prd-1")),
        (UNSET, "what the parent left unset is unset in the child too", None),
    ] {
        let outcome = mapped(session, fixture, value).await;
        enter(session, &format!("{fixture}: {what}"), outcome);
    }
    let outcome = seeded(session).await;
    enter(session, &format!("{MUTATION}: a waiting child keeps what it was given"), outcome);
    let outcome = cascaded(session).await;
    enter(session, &format!("{CASCADE}: the child goes with its parent"), outcome);
    let outcome = alone(session).await;
    enter(
        session,
        &format!("{CASCADE}: a child that is cancelled alone fails its parent"),
        outcome,
    );
}

/// F43, F44, F48.
async fn called(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": PARENT })).await?;
    let parent = completed(session, &run).await?;
    let ends = parent.events.iter().filter(|event| event["type"] == "node.completed");
    let ended: Vec<&Value> = ends.clone().map(|event| &event["nodeId"]).collect();
    ensure!(ended == ["parent-start", "subwf-call", "parent-end"], "{ended:?}");
    let outputs = ends.map(|event| &event["payload"]["outputs"]).nth(1).context("no call")?;
    ensure!(outputs["childStatus"] == "completed", "{outputs}");
    let child = outputs["childRunId"].as_str().context("no childRunId")?.to_owned();
    ensure!(parent.snapshot["variables"]["childOutcome"] == "child-completed", "nothing was taken");
    let dispatched = parent.only("node.dispatched")?;
    ensure!(dispatched["childRunId"] == child.as_str(), "{dispatched}");
    let foreign =
        |event: &&Value| event["nodeId"].as_str().is_some_and(|node| node.starts_with("child-"));
    ensure!(parent.events.iter().find(foreign).is_none(), "the child's events are its parent's");
    let of_child = completed(session, &child).await?.snapshot;
    linked(session, &parent, &of_child, "subwf-call").await
}

/// F44.
async fn mapped(session: &mut Session, fixture: &str, value: Option<&str>) -> Result<()> {
    let run = session.create(&json!({ "workflowId": fixture })).await?;
    let parent = completed(session, &run).await?;
    let child = child_of(&parent.snapshot)?;
    let child = completed(session, &child).await?.snapshot;
    let received = child["variables"].get("receivedPrdId").and_then(Value::as_str);
    ensure!(received == value, "it received {}", child["variables"]);
    let is_null = child["variables"].get("receivedPrdId") == Some(&Value::Null);
    ensure!(!is_null, "unset is not null");
    linked(session, &parent, &child, "subwf-call").await
}

/// F44, F46: what a parent's variables become later does not reach a child that was given them.
async fn seeded(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": MUTATION })).await?;
    let waiting = mirrors(session, &run, "subwf-call").await?;
    let path = format!("/v1/host/sample/test/runs/{run}/variables");
    let change = json!({ "variables": { "currentPrdId": "changed" } });
    session.expect(200, Request::post(path, &change)).await?;
    let child = child_of(&waiting)?;
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let answer = Request::post(format!("/v1/runs/{child}/interrupts/child-gate"), &accept);
    session.expect(200, answer).await?;
    let parent = completed(session, &run).await?;
    let child = completed(session, &child).await?.snapshot;
    ensure!(child["variables"]["receivedPrdId"] == "seeded-id", "{}", child["variables"]);
    let changed = &parent.snapshot["variables"]["currentPrdId"];
    ensure!(changed == "changed", "the parent's own is {changed}");
    linked(session, &parent, &child, "subwf-call").await
}

/// F46, F47.
async fn cascaded(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": CASCADE })).await?;
    let child = child_of(&mirrors(session, &run, "spawn-child").await?)?;
    cancel(session, &run).await?;
    let (parent, child) =
        (session.observe(&run, SOON).await?, session.observe(&child, SOON).await?);
    for ended in [&parent, &child] {
        ensure!(ended.snapshot["status"] == "cancelled", "{}", ended.snapshot["status"]);
        ended.is_a_log()?;
    }
    let direct = parent.only("run.cancelled")?;
    ensure!(direct["reason"] == "enough" && direct.get("parentRunId").is_none(), "{direct}");
    let cascade = child.only("run.cancelled")?;
    ensure!(
        cascade["reason"] == "parent-cancelled" && cascade["parentRunId"] == run.as_str(),
        "{cascade}"
    );
    gone(session, &child.run).await
}

/// F45, F47: a direct cancellation of the child names no parent, and its parent ends for its own reason.
async fn alone(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": CASCADE })).await?;
    let child = child_of(&mirrors(session, &run, "spawn-child").await?)?;
    cancel(session, &child).await?;
    let cancelled = session.observe(&child, SOON).await?;
    ensure!(cancelled.only("run.cancelled")?.get("parentRunId").is_none(), "it names a parent");
    let parent = session.observe(&run, SOON).await?;
    let error = &parent.snapshot["error"];
    ensure!(parent.snapshot["status"] == "failed", "{}", parent.snapshot["status"]);
    ensure!(error["code"] == "child_run_failed", "{error}");
    Ok(())
}

/// The parent shows what its child waits for, and the child's question stands in the inbox.
async fn mirrors(session: &mut Session, run: &str, node: &str) -> Result<Value> {
    let snapshot = until(session, run, "waiting-approval").await?;
    ensure!(snapshot["currentNodeId"] == node, "it waits at {}", snapshot["currentNodeId"]);
    let listed = &snapshot["childRuns"][0];
    ensure!(listed["status"] == "waiting-approval" && listed["nodeId"] == node, "{listed}");
    let child = child_of(&snapshot)?;
    let inbox = Request::get(format!("/v1/host/callboard/inbox?runId={child}"));
    let inbox = session.expect(200, inbox).await?;
    ensure!(inbox["interrupts"][0]["nodeId"] == "child-gate", "{inbox}");
    Ok(snapshot)
}

/// A question that went with its run cannot be answered.
async fn gone(session: &mut Session, child: &str) -> Result<()> {
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let late = Request::post(format!("/v1/runs/{child}/interrupts/child-gate"), &accept);
    let late = session.expect(410, late).await?;
    ensure!(late["error"] == "interrupt_gone", "{late}");
    let inbox = Request::get(format!("/v1/host/callboard/inbox?runId={child}"));
    let inbox = session.expect(200, inbox).await?;
    ensure!(inbox["interrupts"] == json!([]), "{inbox}");
    Ok(())
}

async fn completed(session: &mut Session, run: &str) -> Result<Observed> {
    let observed = session.observe(run, SOON).await?;
    ensure!(observed.snapshot["status"] == "completed", "{run} {}", observed.snapshot["status"]);
    observed.is_a_log()?;
    Ok(observed)
}

fn child_of(parent: &Value) -> Result<String> {
    let children = parent["childRuns"].as_array().context("no childRuns")?;
    ensure!(children.len() == 1, "{} children", children.len());
    Ok(children[0]["runId"].as_str().context("a child without runId")?.to_owned())
}

/// Each side names the other, and so does the ancestry.
async fn linked(session: &mut Session, parent: &Observed, child: &Value, node: &str) -> Result<()> {
    let (above, below) = (parent.run.as_str(), child["runId"].as_str().context("no runId")?);
    ensure!(child["parentRunId"] == above, "parentRunId {}", child["parentRunId"]);
    ensure!(child["parentNodeId"] == node, "parentNodeId {}", child["parentNodeId"]);
    let listed = &parent.snapshot["childRuns"];
    let expected = json!([{
        "runId": below, "workflowId": child["workflowId"], "nodeId": node, "status": child["status"],
    }]);
    ensure!(*listed == expected, "{listed}");
    let path = |run: &str| format!("/v1/runs/{run}/ancestry");
    let ancestry = session.expect(200, Request::get(path(below))).await?;
    session.note("run-ancestry-response", &ancestry);
    let named = &ancestry["parent"];
    ensure!(named["runId"] == above && named["cause"] == "core.subWorkflow", "{ancestry}");
    let top = session.expect(200, Request::get(path(above))).await?;
    session.note("run-ancestry-response", &top);
    ensure!(top["parent"].is_null(), "{top}");
    let foreign = session.send(&Request::get(path(below)).bearer(STRANGER)).await?;
    ensure!(foreign.status == 404, "a stranger gets {}", foreign.status);
    Ok(())
}
