//! The port to whoever knows which agents exist, and what a run keeps of those that it names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use callboard_core::{AgentPin, Plan, TaskSource};
use callboard_protocol::{AgentRef, InvocationSource, NodeId, RunId, Tenant, WorkflowId};

use crate::engine::{Engine, EngineError};

/// Resolves names of agents. One rule says who sees which, here as in every list.
#[async_trait]
pub trait Directory: fmt::Debug + Send + Sync {
    /// What a run keeps of an agent; none if the tenant has no such agent, which then is a name and no more. The
    /// run's own name decides where a channel is split.
    async fn pin(
        &self,
        tenant: &Tenant,
        agent: &AgentRef,
        run: &RunId,
    ) -> Result<Option<AgentPin>, EngineError>;
}

/// A host without agents.
#[derive(Debug)]
pub struct NoAgents;

#[async_trait]
impl Directory for NoAgents {
    async fn pin(
        &self,
        _tenant: &Tenant,
        _agent: &AgentRef,
        _run: &RunId,
    ) -> Result<Option<AgentPin>, EngineError> {
        Ok(None)
    }
}

/// The one node of a run that is an agent's alone.
const ONLY_NODE: &str = "agent";

impl Engine {
    /// The agents that perform nodes of a plan.
    pub(crate) async fn pins(
        &self,
        tenant: &Tenant,
        run: &RunId,
        plan: &Plan,
    ) -> Result<BTreeMap<NodeId, AgentPin>, EngineError> {
        let mut pins = BTreeMap::new();
        for (node, agent) in plan.agents() {
            if let Some(pin) = self.inner.directory.pin(tenant, agent, run).await? {
                pins.insert(node.clone(), pin);
            }
        }
        if let Some((node, agent)) = plan.required_agent()
            && let Some(pin) = self.inner.directory.pin(tenant, &named(agent), run).await?
        {
            pins.insert(node.clone(), AgentPin { task: TaskSource::Inputs, ..pin });
        }
        Ok(pins)
    }

    /// The pin of an agent that a run is for, which must exist.
    pub(crate) async fn pin_alone(
        &self,
        tenant: &Tenant,
        run: &RunId,
        agent: &str,
        source: InvocationSource,
    ) -> Result<BTreeMap<NodeId, AgentPin>, EngineError> {
        let pin = self.inner.directory.pin(tenant, &named(agent), run).await?;
        let pin = pin.ok_or_else(|| EngineError::UnknownAgent(agent.to_owned()))?;
        let pin = AgentPin { task: TaskSource::Inputs, source, ..pin };
        Ok(BTreeMap::from([(ONLY_NODE.into(), pin)]))
    }
}

/// The workflow id of a run that is an agent's alone. Its dot keeps it apart from every registered one.
pub(crate) fn workflow_of(agent: &str) -> WorkflowId {
    format!("agent.{agent}").into()
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
