//! The inventory of agents that a tenant can dispatch.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_protocol::{AgentId, AgentInventory, PackVersion};
use serde::Serialize;
use serde_json::Value;

use super::roster;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;

/// What an agent is given and returns.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentDefinition<'a> {
    agent_id: &'a AgentId,
    version: &'a PackVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_schema: Option<&'a Value>,
    /// Whoever may read what models were sent may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
}

pub(super) async fn list(State(host): State<Arc<Host>>, caller: Caller) -> Result<Answer, Problem> {
    let mut agents = host.app.agents.snapshot().list(&caller.scope.realm());
    let mut lines = roster::lines(&host, &caller).await?;
    for agent in &mut agents {
        agent.roster = lines.remove(&agent.agent_id).unwrap_or_default();
    }
    Ok(Answer::of(StatusCode::OK, &AgentInventory::from(agents)))
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<AgentId>,
) -> Result<Answer, Problem> {
    let snapshot = host.app.agents.snapshot();
    let agent = snapshot.find(&caller.scope.realm(), &id, None);
    let mut entry = agent.ok_or_else(|| Problem::no_such("agent"))?.entry();
    entry.roster = roster::lines(&host, &caller).await?.remove(&id).unwrap_or_default();
    Ok(Answer::of(StatusCode::OK, &entry))
}

pub(super) async fn definition(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<AgentId>,
) -> Result<Answer, Problem> {
    let snapshot = host.app.agents.snapshot();
    let found = snapshot.find(&caller.scope.realm(), &id, None);
    let found = found.ok_or_else(|| Problem::no_such("agent"))?;
    let agent = &found.agent;
    let definition = AgentDefinition {
        agent_id: agent.id(),
        version: found.version(),
        task_schema: agent.task.as_ref().map(|schema| &*schema.source),
        result_schema: agent.result.as_ref().map(|schema| &*schema.source),
        prompt: caller.may("artifacts:read").then_some(&*agent.prompt),
    };
    Answer::json(StatusCode::OK, &definition)
}
