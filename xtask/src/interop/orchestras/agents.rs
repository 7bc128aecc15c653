//! M-39, M-40, and the events of agents: those of the suite's own agent.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{answer, completed, ended, enter, of_kind, only, waiting};
use crate::interop::session::Session;

const REASONING: &str = "conformance-agent-reasoning";
const STREAMING: &str = "conformance-agent-reasoning-streaming";
const UNSURE: &str = "conformance-agent-low-confidence";

pub(super) const NAMES: [&str; 3] = [REASONING, STREAMING, UNSURE];

pub(super) async fn check(session: &mut Session) {
    let outcome = reasoned(session).await;
    enter(
        session,
        &format!("{REASONING}: told in order, calls paired with their returns"),
        outcome,
    );
    let outcome = streamed(session).await;
    enter(session, &format!("{STREAMING}: the whole is the sum of its pieces"), outcome);
    let outcome = unsure(session).await;
    enter(session, &format!("{UNSURE}: asks, and goes on with what it is told"), outcome);
    let outcome = lenient(session).await;
    enter(session, &format!("{UNSURE}: a run that asks for less goes on"), outcome);
}

async fn reasoned(session: &mut Session) -> Result<()> {
    let run = completed(session, REASONING).await?;
    run.in_order(&[
        "agent.reasoned",
        "agent.toolCalled",
        "agent.toolReturned",
        "agent.handoff",
        "agent.decided",
        "node.completed",
    ])?;
    let (called, returned) =
        (only(&run.events, "agent.toolCalled")?, only(&run.events, "agent.toolReturned")?);
    ensure!(called["payload"]["callId"] == returned["payload"]["callId"], "{returned}");
    ensure!(returned["causationId"] == called["eventId"], "{returned}");
    ensure!(returned["contentTrust"] == "untrusted", "{returned}");
    let handoff = run.only("agent.handoff")?;
    ensure!(handoff["fromAgentId"] == "core.conformance.reasoning-agent", "{handoff}");
    ensure!(handoff["toAgentId"] == "core.conformance.handoff-target", "{handoff}");
    Ok(())
}

async fn streamed(session: &mut Session) -> Result<()> {
    let run = completed(session, STREAMING).await?;
    let deltas = run.payloads("agent.reasoning.delta");
    let numbers: Vec<Option<u64>> = deltas.iter().map(|told| told["sequence"].as_u64()).collect();
    ensure!(numbers == [Some(0), Some(1), Some(2)], "{numbers:?}");
    let whole: String = deltas.iter().filter_map(|told| told["delta"].as_str()).collect();
    ensure!(run.only("agent.reasoned")?["reasoning"] == whole.as_str(), "{whole}");
    Ok(())
}

async fn unsure(session: &mut Session) -> Result<()> {
    let (run, log) = waiting(session, UNSURE).await?;
    let suspended = &only(&log, "node.suspended")?["payload"];
    let expected: [(&str, Value); 5] = [
        ("kind", json!("low-confidence")),
        ("reason", json!("low-confidence")),
        ("agentId", json!("core.conformance.low-conf-decider")),
        ("threshold", json!(0.7)),
        ("observed", json!(0.5)),
    ];
    for (key, value) in expected {
        ensure!(suspended[key] == value, "{key}: {suspended}");
    }
    ensure!(of_kind(&log, "agent.decided").len() == 1, "it has not decided once");
    answer(session, &run, "low-conf-decider", &json!({ "kind": "ratified" })).await?;
    let run = ended(session, &run, "completed").await?;
    let decided = run.payloads("agent.decided");
    ensure!(decided.len() == 2 && decided[1]["decision"]["kind"] == "ratified", "{decided:?}");
    Ok(())
}

async fn lenient(session: &mut Session) -> Result<()> {
    let body = json!({ "workflowId": UNSURE, "configurable": { "escalationThreshold": 0.4 } });
    let run = session.create(&body).await?;
    ended(session, &run, "completed").await.map(drop)
}
