//! What a caller can have done: members, agents and workflows, each under a name that every client accepts.

use std::collections::{BTreeMap, BTreeSet};

use callboard_core::provider_names;
use serde_json::{Value, json};

use crate::api::{ApiError, EXTENSION, segment};
use crate::caller::{Caller, text};

/// More than anyone reads; a host with more of them is asked for by id.
const MOST: usize = 1000;
/// What `GET /v1/tools` calls a workflow.
const WORKFLOW_TOOL: &str = "openwop:workflow.";

/// Something that can be started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offer {
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) description: String,
    /// What it takes, where that is known without asking once more.
    schema: Option<Value>,
    /// The agent that does the work of a member.
    agent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Member,
    Agent,
    Workflow,
}

impl Offer {
    /// The id that its name is made from. Kinds are kept apart: a workflow may be called what an agent is.
    fn path(&self) -> String {
        match self.kind {
            Kind::Member => format!("member.{}", self.id.strip_prefix("host:").unwrap_or(&self.id)),
            Kind::Agent => format!("agent.{}", self.id),
            Kind::Workflow => format!("workflow.{}", self.id),
        }
    }

    /// The body of the request that starts it.
    pub(crate) fn order(&self, inputs: &Value) -> Value {
        let target = match self.kind {
            Kind::Member | Kind::Agent => "agentId",
            Kind::Workflow => "workflowId",
        };
        json!({ target: self.id, "inputs": inputs })
    }

    /// The schema of what it takes. An agent whose definition this key may not read takes an object.
    pub(crate) async fn schema(&self, caller: &Caller) -> Result<Value, ApiError> {
        if let Some(schema) = &self.schema {
            return Ok(schema.clone());
        }
        let agent = self.agent.as_deref().unwrap_or(&self.id);
        let path = format!("{EXTENSION}/agents/{}", segment(agent));
        match caller.get(path).await {
            Ok(mut definition) => Ok(match definition["taskSchema"].take() {
                schema @ Value::Object(_) => schema,
                _ => anything(),
            }),
            Err(ApiError::Refused(_)) => Ok(anything()),
            Err(error) => Err(error),
        }
    }
}

fn anything() -> Value {
    json!({ "type": "object" })
}

/// Everything that a key may start, by name.
pub(crate) async fn list(caller: &Caller) -> Result<BTreeMap<String, Offer>, ApiError> {
    let mut offers = people(caller).await?;
    let tools = lenient(caller.get("/v1/tools").await)?;
    let workflows = tools.as_array().into_iter().flatten().filter_map(workflow);
    offers.extend(workflows);
    offers.truncate(MOST);
    let paths: Vec<String> = offers.iter().map(Offer::path).collect();
    let names = provider_names(&paths.iter().map(String::as_str).collect::<BTreeSet<_>>());
    let names: BTreeMap<&str, String> =
        names.into_iter().map(|(name, path)| (path, name)).collect();
    let named = paths.iter().zip(offers);
    Ok(named.filter_map(|(path, offer)| Some((names.get(path.as_str())?.clone(), offer))).collect())
}

/// Members and agents: those that can be talked to.
pub(crate) async fn people(caller: &Caller) -> Result<Vec<Offer>, ApiError> {
    let roster = lenient(caller.get(format!("{EXTENSION}/roster")).await)?;
    let agents = lenient(caller.get("/v1/agents").await)?;
    let members = roster["roster"].as_array().into_iter().flatten().filter_map(member);
    let agents = agents["agents"].as_array().into_iter().flatten().filter_map(agent);
    Ok(members.chain(agents).take(MOST).collect())
}

/// What a key may not list, and what this host does not have, is not offered.
fn lenient(answer: Result<Value, ApiError>) -> Result<Value, ApiError> {
    match answer {
        Err(error) if error.is_forbidden() || matches!(error.status().as_u16(), 404 | 501) => {
            Ok(Value::Null)
        }
        answer => answer,
    }
}

/// A member that is paused cannot be given work.
fn member(entry: &Value) -> Option<Offer> {
    if entry["enabled"] == json!(false) {
        return None;
    }
    let (persona, label) = (text(entry, "persona"), text(entry, "label"));
    let described = text(entry, "description");
    let agent = entry["agentRef"]["agentId"].as_str()?;
    let what = if described.is_empty() { label } else { described };
    Some(Offer {
        kind: Kind::Member,
        id: entry["rosterId"].as_str()?.to_owned(),
        title: persona.to_owned(),
        description: format!("Gives {persona}, a member of the roster, a task. {what}"),
        schema: None,
        agent: Some(agent.to_owned()),
    })
}

fn agent(entry: &Value) -> Option<Offer> {
    let persona = text(entry, "persona");
    Some(Offer {
        kind: Kind::Agent,
        id: entry["agentId"].as_str()?.to_owned(),
        title: persona.to_owned(),
        description: format!("Gives the agent {persona} a task. {}", text(entry, "description")),
        schema: None,
        agent: None,
    })
}

fn workflow(entry: &Value) -> Option<Offer> {
    let id = entry["toolId"].as_str()?.strip_prefix(WORKFLOW_TOOL)?;
    Some(Offer {
        kind: Kind::Workflow,
        id: id.to_owned(),
        title: text(entry, "title").to_owned(),
        description: format!("Runs the workflow {id}. {}", text(entry, "description")),
        schema: entry.get("inputSchema").cloned(),
        agent: None,
    })
}
