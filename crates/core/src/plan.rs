//! A workflow definition made ready to run: indexed, ordered, checked. Shared by all runs of the same text.

mod channel_trigger;
mod compile;
mod plain;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use callboard_protocol::{
    AgentRef, ChannelDeclaration, ChannelName, NodeId, Object, PortValue, ShapeError, TriggerRule,
    TypeId, WorkflowDefinition, WorkflowEdge, WorkflowId, WorkflowNode,
};

use crate::birth::AgentPin;
use crate::child::ChildCall;
use crate::each::{EachPlan, WORKFLOW_REF};
use crate::graph::{Loop, NodeIndex};
use crate::mask::MaskingMode;
use crate::mock_agent::MockAgent;
use crate::node::{NodeKind, required_capability};
use crate::orchestrate::{DispatchPlan, SupervisorPlan};
use crate::schema::Schema;
use crate::talk::TalkPlan;
use channel_trigger::ChannelTrigger;

pub(crate) use channel_trigger::WriteOrigin;

/// A definition that parses but cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct PlanError {
    pub path: String,
    pub message: String,
}

impl From<ShapeError> for PlanError {
    fn from(error: ShapeError) -> Self {
        Self {
            path: if error.path.is_empty() { "definition".into() } else { error.path },
            message: error.message,
        }
    }
}

/// A node type that this host does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingType {
    pub node: NodeId,
    pub type_id: TypeId,
    pub capability: &'static str,
}

/// A compiled definition.
#[derive(Debug)]
pub struct Plan {
    definition: WorkflowDefinition,
    nodes: Vec<PlanNode>,
    by_id: BTreeMap<NodeId, NodeIndex>,
    edges: Vec<PlanEdge>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) triggers: Vec<ChannelTrigger>,
    pub(crate) configurable_schema: Option<Schema>,
    channel_schemas: BTreeMap<ChannelName, Schema>,
    /// Why no new run may have this definition, though one that was accepted before goes on.
    refused: Option<PlanError>,
    pub(crate) masking: MaskingMode,
    /// Whether anything here is marked sensitive; most definitions mark nothing and pay nothing.
    pub(crate) has_sensitive: bool,
}

/// A node with its place in the graph. Indices are in topological order, so the first ready one is the next.
#[derive(Debug)]
pub(crate) struct PlanNode {
    pub(crate) node: WorkflowNode,
    pub(crate) kind: NodeKind,
    /// Forward edges that arrive here.
    pub(crate) incoming: Vec<usize>,
    /// Forward edges that leave from here.
    pub(crate) outgoing: Vec<usize>,
    /// Edges from here that close a loop.
    pub(crate) returning: Vec<usize>,
    pub(crate) rule: TriggerRule,
    /// The loops that hold this node, inner first.
    pub(crate) loops: Vec<usize>,
    /// Whether only a channel write starts it.
    pub(crate) is_triggered_only: bool,
    pub(crate) max_retries: u32,
    /// What a node that starts a run of its own is to do.
    pub(crate) child: Option<ChildCall>,
    /// What a node that holds a conversation is to say.
    pub(crate) talk: Option<TalkPlan>,
    /// Where a supervisor's decisions come from.
    pub(crate) supervisor: Option<SupervisorPlan>,
    /// What a node does with a supervisor's decision.
    pub(crate) dispatch: Option<DispatchPlan>,
    /// What a node does with every item of a list.
    pub(crate) each: Option<EachPlan>,
    /// What the conformance suite's agent reports.
    pub(crate) mock_agent: Option<MockAgent>,
}

#[derive(Debug)]
pub(crate) struct PlanEdge {
    pub(crate) edge: WorkflowEdge,
    pub(crate) from: NodeIndex,
    pub(crate) to: NodeIndex,
}

/// How often a loop may go round when the definition does not say.
const DEFAULT_LOOPBACK_ITERATIONS: u32 = 5;

/// Whether types that exist for conformance tests alone may run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConformanceNodes {
    On,
    Off,
}

/// The beginnings of the node types whose outputs come from outside of the host.
const READS_OUTSIDE: [&str; 3] = ["core.openwop.http.", "core.openwop.mcp.", "callboard.tool"];

impl Plan {
    pub fn definition(&self) -> &WorkflowDefinition {
        &self.definition
    }

    pub fn id(&self) -> &WorkflowId {
        &self.definition.id
    }

    /// The first node that no agent performs and whose type is neither core's own nor among `performed`.
    pub fn missing_type<'a>(
        &self,
        performed: impl Fn(&TypeId) -> bool + 'a,
        by_agents: &BTreeMap<NodeId, AgentPin>,
        conformance: ConformanceNodes,
    ) -> Option<MissingType> {
        let lacks = |node: &PlanNode| {
            // Whatever type it has: an agent performs it.
            if by_agents.contains_key(&node.node.id) {
                return false;
            }
            let known = node.kind.is_pure() || performed(&node.node.type_id);
            !known
                || node.kind.is_the_hosts_own()
                || (node.kind.is_conformance_only() && conformance == ConformanceNodes::Off)
        };
        self.nodes.iter().find(|node| lacks(node)).map(|node| MissingType {
            node: node.node.id.clone(),
            type_id: node.node.type_id.clone(),
            capability: required_capability(&node.node.type_id),
        })
    }

    /// The nodes that name an agent.
    pub fn agents(&self) -> impl Iterator<Item = (&NodeId, &AgentRef)> {
        self.nodes.iter().filter_map(|node| Some((&node.node.id, node.node.agent.as_ref()?)))
    }

    /// The node that runs first, with the agent that the whole workflow is for.
    pub fn required_agent(&self) -> Option<(&NodeId, &str)> {
        let agent = self.definition.metadata.requires_agent_id.as_deref()?;
        Some((&self.nodes.first()?.node.id, agent))
    }

    /// What a conformance node would have its span say about cost.
    pub(crate) fn proposed_cost(&self, node: &NodeId) -> Option<&Object> {
        let node = self.node(self.index(node)?);
        let attributes = node.node.config.get("attrs").filter(|_| node.kind == NodeKind::CostEmit);
        attributes.and_then(Value::as_object)
    }

    /// The workflows that nodes of this one start.
    pub fn children(&self) -> impl Iterator<Item = (&NodeId, WorkflowId)> {
        let started = |node: &PlanNode| {
            let call = node.child.as_ref().map(|call| &call.workflow_id);
            call.or_else(|| node.each.as_ref()?.workflow()).cloned().or_else(|| invoked(node))
        };
        self.nodes.iter().filter_map(move |node| Some((&node.node.id, started(node)?)))
    }

    /// The type of a node whose work is to start runs.
    pub fn cause_of_children(&self, node: &NodeId) -> Option<&TypeId> {
        let node = self.node(self.index(node)?);
        let starts_runs = node.child.is_some() || node.dispatch.is_some();
        starts_runs.then_some(&node.node.type_id)
    }

    /// Whether a node of it brings in what others wrote: pages, answers of tools. Agents of such a run get their tasks
    /// marked as untrusted.
    pub fn reads_outside(&self) -> bool {
        let reads = |type_id: &str| READS_OUTSIDE.iter().any(|family| type_id.starts_with(family));
        self.nodes.iter().any(|node| reads(node.node.type_id.as_str()))
    }

    /// What a node is; none for one that the definition does not have.
    pub fn type_of(&self, node: &NodeId) -> Option<&TypeId> {
        self.index(node).map(|index| &self.node(index).node.type_id)
    }

    /// Whether an activity performs it, which may call others; also for a node that the definition does not have.
    pub fn is_performed(&self, node: &NodeId) -> bool {
        self.index(node).is_none_or(|index| self.node(index).kind.is_performed())
    }

    pub(crate) fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    pub(crate) fn node(&self, index: NodeIndex) -> &PlanNode {
        &self.nodes[index]
    }

    pub(crate) fn index(&self, id: &NodeId) -> Option<NodeIndex> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn edge(&self, index: usize) -> &PlanEdge {
        &self.edges[index]
    }

    pub(crate) fn channel(&self, name: &ChannelName) -> Option<&ChannelDeclaration> {
        self.definition.channels.as_ref()?.get(name)
    }

    pub(crate) fn channel_schema(&self, name: &ChannelName) -> Option<&Schema> {
        self.channel_schemas.get(name)
    }

    pub(crate) fn loopback_limit(&self) -> u32 {
        self.definition.settings.max_loopback_iterations.unwrap_or(DEFAULT_LOOPBACK_ITERATIONS)
    }

    /// All nodes that can be reached from `node` over forward edges, itself included.
    pub(crate) fn downstream(&self, node: NodeIndex) -> BTreeSet<NodeIndex> {
        let mut reached = BTreeSet::new();
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            if reached.insert(node) {
                stack.extend(self.nodes[node].outgoing.iter().map(|edge| self.edges[*edge].to));
            }
        }
        reached
    }
}

/// The workflow of a node whose input names it, where that is written down.
fn invoked(node: &PlanNode) -> Option<WorkflowId> {
    match node.node.inputs.get(WORKFLOW_REF).filter(|_| node.kind == NodeKind::Invoke)? {
        PortValue::Static { value: Value::String(name) } => Some(name.as_str().into()),
        PortValue::Static { .. }
        | PortValue::Expression { .. }
        | PortValue::Connection { .. }
        | PortValue::Variable { .. } => None,
    }
}

fn error(path: &str, message: String) -> PlanError {
    PlanError { path: path.to_owned(), message }
}
