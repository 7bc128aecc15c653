//! M-30, M-31, M-35, M-38: supervisors that are not sure, and what a person makes of it.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{answer, ended, enter, of_kind, only, waiting};
use crate::interop::session::Session;
use crate::wire::Request;

const FLOOR: &str = "conformance-multi-agent-confidence-escalation";
const HELD: &str = "conformance-orchestrator-low-confidence";

pub(super) const NAMES: [&str; 2] = [FLOOR, HELD];

pub(super) async fn check(session: &mut Session) {
    let outcome = escalated(session).await;
    enter(session, &format!("{FLOOR}: told, asked, and not done"), outcome);
    let outcome = ratified(session).await;
    enter(session, &format!("{FLOOR}: accepted, it is carried out and not asked again"), outcome);
    let outcome = replaced(session).await;
    enter(session, &format!("{FLOOR}: edited, another decision takes its place"), outcome);
    let outcome = rejected(session).await;
    enter(session, &format!("{FLOOR}: rejected, nothing is done"), outcome);
    let outcome = held(session).await;
    enter(session, &format!("{HELD}: decides nothing before somebody ratifies it"), outcome);
}

async fn escalated(session: &mut Session) -> Result<()> {
    let (run, log) = waiting(session, FLOOR).await?;
    let escalated = only(&log, "core.workflowChain.confidence-escalated")?;
    let decided = only(&log, "runOrchestrator.decided")?;
    let told = &escalated["payload"];
    ensure!(told["confidence"] == 0.3 && told["floor"] == 0.5, "{told}");
    ensure!(told["escalationKind"] == "escalate", "{told}");
    ensure!(told["parentRunId"] == run.as_str(), "{told}");
    ensure!(told["workerId"] == "conformance-multi-agent-handoff-child", "{told}");
    ensure!(told["originalDecision"] == decided["payload"]["decision"], "{told}");
    ensure!(escalated["causationId"] == decided["eventId"], "{escalated}");
    ensure!(of_kind(&log, "core.workflowChain.event").is_empty(), "a dispatch began");
    let asked = only(&log, "interrupt.requested")?;
    ensure!(asked["sequence"].as_u64() > escalated["sequence"].as_u64(), "asked before it told");
    let inbox = Request::get(format!("/v1/host/callboard/inbox?runId={run}"));
    let inbox = session.expect(200, inbox).await?;
    let proposal = &inbox["interrupts"][0]["data"]["artifactData"];
    ensure!(proposal["observed"] == 0.3 && proposal["threshold"] == 0.5, "{inbox}");
    let nonsense =
        json!({ "resumeValue": { "action": "edit-accept", "decision": { "kind": "x" } } });
    let request = Request::post(format!("/v1/runs/{run}/interrupts/supervisor"), &nonsense);
    session.expect(400, request).await.map(drop)
}

async fn ratified(session: &mut Session) -> Result<()> {
    let (run, _) = waiting(session, FLOOR).await?;
    answer(session, &run, "supervisor", &json!({ "action": "accept" })).await?;
    let run = ended(session, &run, "completed").await?;
    ensure!(run.payloads("core.workflowChain.confidence-escalated").len() == 1, "told again");
    let chain = of_kind(&run.events, "core.workflowChain.event");
    let decided = of_kind(&run.events, "runOrchestrator.decided");
    ensure!(decided.len() == 1, "{} decisions", decided.len());
    ensure!(chain[0]["causationId"] == decided[0]["eventId"], "{}", chain[0]);
    Ok(())
}

async fn replaced(session: &mut Session) -> Result<()> {
    let (run, _) = waiting(session, FLOOR).await?;
    let other = json!({ "kind": "next-worker", "nextWorkerIds": ["conformance-noop"] });
    let edit = json!({ "action": "edit-accept", "decision": other });
    answer(session, &run, "supervisor", &edit).await?;
    let run = ended(session, &run, "completed").await?;
    let decisions: Vec<&Value> = run.payloads("runOrchestrator.decided");
    ensure!(decisions.len() == 2 && decisions[1]["decision"] == other, "{decisions:?}");
    ensure!(
        run.only("node.dispatched")?["childWorkflowId"] == "conformance-noop",
        "another worker"
    );
    Ok(())
}

async fn rejected(session: &mut Session) -> Result<()> {
    let (run, _) = waiting(session, FLOOR).await?;
    answer(session, &run, "supervisor", &json!({ "action": "reject" })).await?;
    let run = ended(session, &run, "failed").await?;
    ensure!(run.payloads("node.dispatched").is_empty(), "it was carried out");
    Ok(())
}

async fn held(session: &mut Session) -> Result<()> {
    let (run, log) = waiting(session, HELD).await?;
    ensure!(of_kind(&log, "runOrchestrator.decided").is_empty(), "it has decided");
    let suspended = &only(&log, "node.suspended")?["payload"];
    ensure!(suspended["reason"] == "low-confidence", "{suspended}");
    ensure!(suspended["agentId"] == "core.conformance.low-conf-supervisor", "{suspended}");
    ensure!(suspended["observed"] == 0.5 && suspended["threshold"] == 0.7, "{suspended}");
    let ratified = json!({ "kind": "next-worker", "nextWorkerIds": ["conformance-noop"] });
    answer(session, &run, "supervisor", &ratified).await?;
    let run = ended(session, &run, "completed").await?;
    let decided = run.only("runOrchestrator.decided")?;
    ensure!(decided["decision"] == ratified, "{decided}");
    ensure!(decided["agentId"] == "core.conformance.low-conf-supervisor", "{decided}");
    Ok(())
}
