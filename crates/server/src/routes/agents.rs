//! The inventory of agents that a tenant can dispatch.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_protocol::{AgentId, AgentInventory};

use super::roster;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;

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
