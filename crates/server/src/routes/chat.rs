//! `POST /v1/host/callboard/chat`: the member that a text mentions gets the rest of it as a task.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use callboard_agents::{AgentDirectory, mentioned};
use callboard_engine::{Directory, Order, Realm, Target};
use callboard_protocol::{
    AgentId, AgentInventoryEntry, AgentRef, AgentRosterEntry, Chat, Object, RosterAgentRef,
};

use super::roster;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Shaped};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::{Code, Problem};

/// Where an agent that asks for no text in particular finds it.
const USUAL_FIELD: &str = "text";

pub(super) async fn say(
    State(host): State<Arc<Host>>,
    caller: Caller,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<Chat>,
) -> Result<Response, Problem> {
    let order = order(&host, &caller, &body.text).await?;
    host.starts.admit(&caller, Some(&order.target), host.now())?;
    let engine = &host.app.engine;
    let answer = |done: &callboard_engine::Done| roster::fired(&done.run);
    settle(keyed.as_ref(), answer, |remember| engine.create(order, remember)).await
}

/// A member that can be mentioned.
#[derive(Debug, Clone, Copy)]
enum Whom<'a> {
    Member(&'a AgentRosterEntry),
    Agent(&'a AgentInventoryEntry),
}

impl<'a> Whom<'a> {
    fn id(self) -> &'a str {
        match self {
            Self::Member(member) => member.roster_id.as_str(),
            Self::Agent(agent) => agent.agent_id.as_str(),
        }
    }

    fn persona(self) -> &'a str {
        match self {
            Self::Member(member) => &member.persona,
            Self::Agent(agent) => &agent.persona,
        }
    }

    /// The agent that does the work.
    fn agent(self) -> AgentRef {
        match self {
            Self::Member(member) => member.agent_ref.to_agent_ref(),
            Self::Agent(AgentInventoryEntry { agent_id, .. }) => {
                let agent_id = agent_id.clone();
                RosterAgentRef { agent_id, version: None, channel: None }.to_agent_ref()
            }
        }
    }
}

async fn order(host: &Host, caller: &Caller, text: &str) -> Result<Order, Problem> {
    let realm = caller.scope.realm();
    let members = match roster::must_be_offered(host) {
        Ok(()) => roster::members(host, caller).await?,
        Err(_) => Vec::new(),
    };
    let agents = host.app.agents.snapshot().list(&realm);
    // Who was hired under a name has it before an agent that came with it.
    let members = members.iter().map(Whom::Member);
    let everybody = members.chain(agents.iter().map(Whom::Agent));
    let names: Vec<(&str, Whom<'_>)> =
        everybody.flat_map(|whom| [(whom.persona(), whom), (whom.id(), whom)]).collect();
    let Some(mention) = mentioned(text, &names) else {
        let what = "text: nobody of the roster and no agent is mentioned in it";
        return Err(Problem::new(Code::AgentNotFound, what).with("path", "text"));
    };
    let field = field(host, &realm, &mention.whom.agent()).await?;
    Ok(Order {
        inputs: Object::from_iter([(field, mention.said.into())]),
        ..Order::new(
            Target::Mentioned(mention.whom.id().to_owned()),
            caller.owner(),
            caller.scope.mode,
        )
    })
}

/// Where an agent's task has a text. Of a channel that is split between versions one is asked for both: they take
/// the same tasks, or else nobody could give one to the channel.
async fn field(host: &Host, realm: &Realm, agent: &AgentRef) -> Result<String, Problem> {
    let app = &host.app;
    let (registry, deployments) = (Arc::clone(&app.agents), app.deployments.clone());
    let directory = AgentDirectory { registry, deployments };
    let pin = directory.pin(realm, agent, &"chat".into()).await?;
    let snapshot = app.agents.snapshot();
    let found = pin.and_then(|pin| {
        let version = pin.version.parse().ok()?;
        snapshot.find(realm, &AgentId::from(pin.agent_id), Some(&version))
    });
    let task = found.and_then(|found| found.agent.task.as_ref());
    Ok(task.and_then(|task| task.first_text()).unwrap_or(USUAL_FIELD).to_owned())
}
