//! The port to the list of agents, and what a run keeps of those that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use callboard_core::{AgentPin, Inadmissible, Plan, TaskSource};
use callboard_protocol::{
    AgentRef, AgentRosterEntry, InvocationSource, NodeId, Object, RosterId, RunId, WorkflowId,
};

use crate::engine::{Engine, EngineError};
use crate::fire::Acting;
use crate::store::{Realm, Scope};

/// Resolves names of agents. One rule says who sees which, here as in every list.
#[async_trait]
pub trait Directory: fmt::Debug + Send + Sync {
    /// What a run keeps of an agent; none if the realm has no such agent, which then is a name and no more. The
    /// run's own name decides where a channel is split.
    async fn pin(
        &self,
        realm: &Realm,
        agent: &AgentRef,
        run: &RunId,
    ) -> Result<Option<AgentPin>, EngineError>;

    /// Refuses a run whose options name a model that nobody here could be asked for.
    fn admit_models(&self, _configurable: &Object) -> Result<(), Inadmissible> {
        Ok(())
    }
}

/// A host without agents.
#[derive(Debug)]
pub struct NoAgents;

#[async_trait]
impl Directory for NoAgents {
    async fn pin(
        &self,
        _realm: &Realm,
        _agent: &AgentRef,
        _run: &RunId,
    ) -> Result<Option<AgentPin>, EngineError> {
        Ok(None)
    }
}

/// The one node of a run that is an agent's alone.
const ONLY_NODE: &str = "agent";

/// Who performs what in a run, and for whom the run is.
#[derive(Debug, Default)]
pub(crate) struct AgentBindings {
    pub(crate) pins: BTreeMap<NodeId, AgentPin>,
    pub(crate) acting: Option<Acting>,
}

impl AgentBindings {
    /// A run that is an agent's alone needs the agent, and gives it the caller's inputs.
    pub(crate) fn run_single(
        &mut self,
        agent: &str,
        source: InvocationSource,
    ) -> Result<(), EngineError> {
        let pin = self.pins.get_mut(&NodeId::from(ONLY_NODE));
        let pin = pin.ok_or_else(|| EngineError::UnknownAgent(agent.to_owned()))?;
        pin.task = TaskSource::Inputs;
        pin.source = source;
        Ok(())
    }
}

impl Engine {
    /// The agents that perform nodes of a plan. The run is for whom it was fired, or else for the first member
    /// that a node names.
    pub(crate) async fn cast(
        &self,
        scope: &Scope,
        run: &RunId,
        plan: &Plan,
        fired: Option<&Acting>,
    ) -> Result<AgentBindings, EngineError> {
        let mut cast = AgentBindings { pins: BTreeMap::new(), acting: fired.cloned() };
        for (node, agent) in plan.agents() {
            if let Some(pin) = self.pin(scope, run, agent, fired, &mut cast.acting).await? {
                cast.pins.insert(node.clone(), pin);
            }
        }
        if let Some((node, agent)) = plan.required_agent()
            && let Some(pin) = self.pin(scope, run, &named(agent), fired, &mut cast.acting).await?
        {
            cast.pins.insert(node.clone(), AgentPin { task: TaskSource::Inputs, ..pin });
        }
        Ok(cast)
    }

    async fn pin(
        &self,
        scope: &Scope,
        run: &RunId,
        agent: &AgentRef,
        fired: Option<&Acting>,
        acting: &mut Option<Acting>,
    ) -> Result<Option<AgentPin>, EngineError> {
        let realm = scope.realm();
        let Some(member) = self.meant_member(scope, agent, fired).await? else {
            return self.inner.directory.pin(&realm, agent, run).await;
        };
        let bound = member.agent_ref.to_agent_ref();
        let pin = self.inner.directory.pin(&realm, &bound, run).await?;
        // A member stands for one agent: without it there is nobody, and no other takes its place.
        let pin = pin.ok_or(EngineError::UnknownAgent(bound.agent_id))?;
        let persona = Some(member.persona.clone());
        acting.get_or_insert_with(|| Acting::by_hand(member));
        Ok(Some(AgentPin { persona, ..pin }))
    }

    /// The member that a reference means: by its id, or by its agent in a run that is fired for it.
    async fn meant_member(
        &self,
        scope: &Scope,
        agent: &AgentRef,
        fired: Option<&Acting>,
    ) -> Result<Option<AgentRosterEntry>, EngineError> {
        if RosterId::is_meant_by(&agent.agent_id) {
            let id = RosterId::from(agent.agent_id.as_str());
            let found = self.inner.roster.member(scope, &id).await?;
            let found = found.ok_or_else(|| EngineError::UnknownAgent(id.to_string()))?;
            return Ok(Some(found.entry));
        }
        let is_left_open = agent.version.is_none() && agent.channel.is_none();
        let fired = fired.map(|acting| &acting.member);
        let is_bound_agent = |member: &&AgentRosterEntry| {
            is_left_open && member.agent_ref.agent_id.as_str() == agent.agent_id
        };
        Ok(fired.filter(is_bound_agent).cloned())
    }
}

/// The workflow id of a run that is an agent's alone. Its dot keeps it apart from every registered one.
pub(crate) fn workflow_of(agent: &str) -> WorkflowId {
    format!("agent.{agent}").into()
}

/// The agent of such a workflow id.
pub(crate) fn agent_of(workflow: &WorkflowId) -> Option<&str> {
    workflow.as_str().strip_prefix("agent.")
}

/// The definition of a run that is an agent's alone; the caller's inputs are its task.
pub(crate) fn definition_of(agent: &str) -> Arc<str> {
    let definition = json!({
        "id": "agent", "name": agent, "version": "1.0",
        "nodes": [{
            "id": ONLY_NODE, "typeId": "core.identity", "name": agent, "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": {}, "agent": { "agentId": agent },
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    definition.to_string().into()
}

fn named(agent: &str) -> AgentRef {
    AgentRef {
        agent_id: agent.to_owned(),
        name: None,
        model_class: None,
        memory_ref: None,
        version: None,
        channel: None,
        source_manifest_id: None,
    }
}
