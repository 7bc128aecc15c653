//! Fires a member's workflow as one of its triggers would.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::Done;
use callboard_protocol::{
    AgentRosterEntry, HireMember, Object, RosterAgentRef, RosterId, TriggerSource, WorkflowId,
};
use callboard_server::extend::{
    Answer, Caller, Host, Problem, Shaped,
    roster::{self, Fired},
    work,
};
use serde::Deserialize;
use serde_json::json;

use super::stage::begun;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RosterFire {
    roster_id: Option<RosterId>,
    trigger_source: Option<String>,
    #[serde(default)]
    as_work_item: bool,
}

/// Asks the same question, makes the same run and tells the same facts as a trigger; only the moment is chosen here.
pub(super) async fn roster_fire(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<RosterFire>,
) -> Result<Answer, Problem> {
    let source = match body.trigger_source.as_deref() {
        Some(name) => TriggerSource::from_name(name)
            .ok_or_else(|| Problem::invalid_at("triggerSource", "is none that fires runs here"))?,
        None => TriggerSource::Manual,
    };
    let member = match body.roster_id {
        Some(id) => roster::find(&host, &caller, &id).await?.entry,
        None => somebody(&host, &caller).await?,
    };
    let workflow = member.workflows.first().cloned();
    let workflow = workflow
        .ok_or_else(|| Problem::invalid_at("rosterId", "the member owns no workflow to fire"))?;
    let mut answer = json!({ "rosterId": member.roster_id });
    if body.as_work_item {
        let (done, queue) = begin(&host, &caller, &member, workflow, source).await?;
        answer["runId"] = json!(done.run);
        answer["triggerSubscriptionId"] = json!(queue);
    } else {
        let fire = Fired { workflow, inputs: Object::new(), source, over: None };
        let order = roster::order(&host, &caller, &member.roster_id, fire).await?;
        let run = host.app.engine.create(order, None).await?.run;
        begun(&host, &caller, &run).await?;
        answer["runId"] = json!(run);
    }
    Ok(Answer::of(StatusCode::OK, &answer))
}

/// The first member that has something to do and may do it. The suite expects one on a fresh host, so where there
/// is nobody the first agent is hired for the first fixture, as anybody would hire it.
async fn somebody(host: &Host, caller: &Caller) -> Result<AgentRosterEntry, Problem> {
    let members = roster::members(host, caller).await?;
    let able = |member: &AgentRosterEntry| member.enabled && !member.workflows.is_empty();
    if let Some(found) = members.into_iter().find(able) {
        return Ok(found);
    }
    let agent = host.app.agents.snapshot().list(&caller.scope.realm()).into_iter().next();
    let fixtures = host.app.engine.catalog().fixtures();
    let noop = fixtures.iter().find(|fixture| fixture.as_str() == "conformance-noop");
    let workflow = noop.or(fixtures.first()).cloned();
    let (Some(agent), Some(workflow)) = (agent, workflow) else {
        return Err(Problem::no_such("member that owns a workflow"));
    };
    let hire = HireMember {
        persona: "Standby".to_owned(),
        agent_ref: RosterAgentRef { agent_id: agent.agent_id, version: None, channel: None },
        workflows: vec![workflow],
        enabled: true,
        label: None,
        description: None,
    };
    roster::take_on(host, caller, hire).await
}

/// Puts an item before a member that must take it now, as this source would; answers its run and its queue.
async fn begin(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
    workflow: WorkflowId,
    source: TriggerSource,
) -> Result<(Done, String), Problem> {
    let title = "Through the door".to_owned();
    let change = work::new_item(host, caller, member, title, workflow, Object::new());
    let (order, moved_item) = work::prepare(host, caller, member, &change, source).await?;
    let queue = moved_item.queue.id.clone();
    Ok((host.app.engine.fire_work(moved_item, order, None).await?, queue))
}
