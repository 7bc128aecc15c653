//! A workflow definition made ready to run: indexed, ordered, checked. Shared by all runs of the same text.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::Value;

use callboard_protocol::{
    AgentRef, ChannelDeclaration, ChannelName, NodeId, Object, PortValue, ShapeError, TriggerRule,
    TriggerType, TypeId, WorkflowDefinition, WorkflowEdge, WorkflowId, WorkflowNode,
};

use crate::birth::AgentPin;
use crate::child::ChildCall;
use crate::expression::check_expression;
use crate::graph::{Graph, Link, Loop, NodeIndex};
use crate::mask::MaskingMode;
use crate::mock_agent::MockAgent;
use crate::node::NodeKind;
use crate::node::required_capability;
use crate::orchestrate::{DispatchPlan, SupervisorPlan};
use crate::talk::TalkPlan;

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
    pub(crate) configurable_schema: Option<Validator>,
    channel_schemas: BTreeMap<ChannelName, Validator>,
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
    /// What the conformance suite's agent tells.
    pub(crate) mock_agent: Option<MockAgent>,
}

#[derive(Debug)]
pub(crate) struct PlanEdge {
    pub(crate) edge: WorkflowEdge,
    pub(crate) from: NodeIndex,
    pub(crate) to: NodeIndex,
}

/// A `channel-write` trigger: a write to the channel starts the node.
#[derive(Debug)]
pub(crate) struct ChannelTrigger {
    pub(crate) channel: ChannelName,
    pub(crate) node: NodeIndex,
    pub(crate) origin: WriteOrigin,
    pub(crate) debounce_ms: u64,
    /// The node and all that follows it: their own writes do not fire it again.
    pub(crate) lineage: BTreeSet<NodeIndex>,
}

/// Whose writes a trigger listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOrigin {
    Any,
    Child,
    /// The protocol calls it `parent`: the run that owns the channel.
    Own,
}

/// How often a loop may go round when the definition does not say.
const DEFAULT_LOOPBACK_ITERATIONS: u32 = 5;
/// Definitions beyond this are refused: nobody draws them, and every check here is polynomial.
const MAX_NODES: usize = 2_000;
/// The longest debounce of a channel trigger, as the protocol bounds it.
const MAX_DEBOUNCE_MS: u64 = 60_000;

impl Plan {
    /// Reads and compiles a definition's text.
    pub fn parse(source: &[u8]) -> Result<Self, PlanError> {
        let definition =
            WorkflowDefinition::parse(source).map_err(|error| PlanError::from(error.0))?;
        Self::compile(definition)
    }

    pub fn compile(definition: WorkflowDefinition) -> Result<Self, PlanError> {
        if definition.nodes.len() > MAX_NODES {
            return Err(error("nodes", format!("more than {MAX_NODES} nodes")));
        }
        let listed = list_nodes(&definition)?;
        let links = list_links(&definition, &listed)?;
        let graph = Graph::analyse(definition.nodes.len(), &links).map_err(|cycle| {
            let edge = &definition.edges[cycle.link];
            error(
                &format!("edges[{}]", cycle.link),
                format!("edge {} closes a cycle with two ways in", edge.id),
            )
        })?;
        check_ports(&definition, &listed)?;
        let channel_schemas = compile_channels(&definition)?;
        let configurable_schema = definition
            .configurable_schema
            .as_ref()
            .map(|schema| compile_schema("configurableSchema", schema))
            .transpose()?;
        let masking = MaskingMode::of(&definition)?;
        let mut plan = Self {
            nodes: Vec::new(),
            by_id: BTreeMap::new(),
            edges: Vec::new(),
            loops: Vec::new(),
            triggers: Vec::new(),
            configurable_schema,
            channel_schemas,
            masking,
            has_sensitive: marks_sensitive(&definition),
            definition,
        };
        plan.arrange(&graph);
        for node in &mut plan.nodes {
            let definition = &plan.definition;
            match node.kind {
                NodeKind::Child => node.child = Some(ChildCall::of(&node.node, definition)?),
                NodeKind::Talk => node.talk = Some(TalkPlan::of(&node.node, definition)?),
                NodeKind::Supervisor => {
                    node.supervisor = Some(SupervisorPlan::of(&node.node, definition)?);
                }
                NodeKind::Dispatch => {
                    node.dispatch = Some(DispatchPlan::of(&node.node, definition)?);
                }
                NodeKind::MockAgent => node.mock_agent = Some(MockAgent::of(&node.node)?),
                _ => {}
            }
        }
        plan.triggers = plan.compile_triggers()?;
        for trigger in &plan.triggers {
            let node = &mut plan.nodes[trigger.node];
            node.is_triggered_only = node.incoming.is_empty();
        }
        Ok(plan)
    }

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
    pub fn children(&self) -> impl Iterator<Item = (&NodeId, &WorkflowId)> {
        self.nodes
            .iter()
            .filter_map(|node| Some((&node.node.id, &node.child.as_ref()?.workflow_id)))
    }

    /// What a node is; none for one that the definition does not have.
    pub fn type_of(&self, node: &NodeId) -> Option<&TypeId> {
        self.index(node).map(|index| &self.node(index).node.type_id)
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

    pub(crate) fn channel_schema(&self, name: &ChannelName) -> Option<&Validator> {
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

    /// Renumbers nodes by topological rank.
    fn arrange(&mut self, graph: &Graph) {
        let mut rank = vec![0; graph.order.len()];
        for (place, listed) in graph.order.iter().enumerate() {
            rank[*listed] = place;
        }
        let sorted = sorted_nodes(&self.definition);
        for listed in &graph.order {
            let node = sorted[*listed].clone();
            self.by_id.insert(node.id.clone(), self.nodes.len());
            let max_retries =
                retries(&node).unwrap_or(self.definition.settings.max_retries.unwrap_or(0));
            self.nodes.push(PlanNode {
                kind: NodeKind::of(&node),
                incoming: Vec::new(),
                outgoing: Vec::new(),
                returning: Vec::new(),
                rule: TriggerRule::default(),
                loops: Vec::new(),
                is_triggered_only: false,
                max_retries,
                child: None,
                talk: None,
                supervisor: None,
                dispatch: None,
                mock_agent: None,
                node,
            });
        }
        for (index, edge) in self.definition.edges.iter().enumerate() {
            let (from, to) = (self.by_id[&edge.source_node_id], self.by_id[&edge.target_node_id]);
            self.edges.push(PlanEdge { edge: edge.clone(), from, to });
            if graph.is_back[index] {
                self.nodes[from].returning.push(index);
            } else {
                self.nodes[from].outgoing.push(index);
                self.nodes[to].incoming.push(index);
            }
        }
        for node in &mut self.nodes {
            let deciding = node
                .incoming
                .iter()
                .map(|edge| &self.edges[*edge].edge)
                .min_by(|a, b| a.id.cmp(&b.id));
            node.rule = deciding.map(|edge| edge.trigger_rule).unwrap_or_default();
            if node.node.type_id.as_str() == "core.merge"
                && node.node.config.get("mode") == Some(&Value::from("any"))
            {
                node.rule = TriggerRule::AnySuccess;
            }
        }
        for (index, known) in graph.loops.iter().enumerate() {
            let body: BTreeSet<NodeIndex> = known.body.iter().map(|listed| rank[*listed]).collect();
            for member in &body {
                self.nodes[*member].loops.push(index);
            }
            self.loops.push(Loop { header: rank[known.header], body, back: known.back.clone() });
        }
    }

    fn compile_triggers(&self) -> Result<Vec<ChannelTrigger>, PlanError> {
        let mut triggers = Vec::new();
        for (index, trigger) in self.definition.triggers.iter().enumerate() {
            if trigger.kind != TriggerType::ChannelWrite || !trigger.enabled {
                continue;
            }
            let path = format!("triggers[{index}]");
            let config = trigger.config.as_ref();
            let channel = config.and_then(|config| config.get("channel")).and_then(Value::as_str);
            let channel =
                channel.ok_or_else(|| error(&path, "config.channel must name a channel".into()))?;
            let node = trigger.node_id.as_ref().and_then(|id| self.index(id));
            let node = node
                .ok_or_else(|| error(&path, "nodeId must name a node of this workflow".into()))?;
            let origin =
                match config.and_then(|config| config.get("onlyFrom")).and_then(Value::as_str) {
                    None | Some("any") => WriteOrigin::Any,
                    Some("child") => WriteOrigin::Child,
                    Some("parent") => WriteOrigin::Own,
                    Some(other) => {
                        return Err(error(
                            &path,
                            format!("onlyFrom {other:?} must be any, child or parent"),
                        ));
                    }
                };
            let debounce =
                config.and_then(|config| config.get("debounceMs")).map_or(Some(0), Value::as_u64);
            let debounce_ms =
                debounce.filter(|millis| *millis <= MAX_DEBOUNCE_MS).ok_or_else(|| {
                    error(&path, format!("debounceMs must be 0 to {MAX_DEBOUNCE_MS}"))
                })?;
            let lineage = self.downstream(node);
            triggers.push(ChannelTrigger {
                channel: channel.into(),
                node,
                origin,
                debounce_ms,
                lineage,
            });
        }
        Ok(triggers)
    }
}

/// Whether types that exist for conformance tests alone may run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConformanceNodes {
    On,
    Off,
}

/// Ties between nodes are broken by id, whatever the order in the file.
fn sorted_nodes(definition: &WorkflowDefinition) -> Vec<&WorkflowNode> {
    let sourceless = definition
        .nodes
        .iter()
        .all(|node| definition.edges.iter().any(|edge| edge.target_node_id == node.id));
    let mut nodes: Vec<&WorkflowNode> = definition.nodes.iter().collect();
    // Where every node has a way in, the first listed one is the entry, so the file's order counts.
    if !sourceless {
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
    }
    nodes
}

fn list_nodes(definition: &WorkflowDefinition) -> Result<BTreeMap<&NodeId, NodeIndex>, PlanError> {
    let mut seen = BTreeSet::new();
    for (index, node) in definition.nodes.iter().enumerate() {
        if !seen.insert(&node.id) {
            return Err(error(
                &format!("nodes[{index}].id"),
                format!("node {} is defined twice", node.id),
            ));
        }
    }
    Ok(sorted_nodes(definition)
        .into_iter()
        .enumerate()
        .map(|(index, node)| (&node.id, index))
        .collect())
}

fn list_links(
    definition: &WorkflowDefinition,
    listed: &BTreeMap<&NodeId, NodeIndex>,
) -> Result<Vec<Link>, PlanError> {
    let mut ids = BTreeSet::new();
    let mut links = Vec::with_capacity(definition.edges.len());
    for (index, edge) in definition.edges.iter().enumerate() {
        let path = format!("edges[{index}]");
        if !ids.insert(&edge.id) {
            return Err(error(&path, format!("edge {} is defined twice", edge.id)));
        }
        let end = |id: &NodeId, name: &str| {
            listed
                .get(id)
                .copied()
                .ok_or_else(|| error(&format!("{path}.{name}"), format!("no node {id}")))
        };
        links.push(Link {
            from: end(&edge.source_node_id, "sourceNodeId")?,
            to: end(&edge.target_node_id, "targetNodeId")?,
        });
        let expression =
            edge.condition.as_ref().and_then(|condition| condition.expression.as_ref());
        if let Some(expression) = expression {
            check_expression(expression)
                .map_err(|why| error(&format!("{path}.condition.expression"), why))?;
        }
    }
    Ok(links)
}

fn check_ports(
    definition: &WorkflowDefinition,
    listed: &BTreeMap<&NodeId, NodeIndex>,
) -> Result<(), PlanError> {
    for (index, node) in definition.nodes.iter().enumerate() {
        for (port, value) in &node.inputs {
            let path = format!("nodes[{index}].inputs.{port}");
            match value {
                PortValue::Expression { expression } => {
                    check_expression(expression).map_err(|why| error(&path, why))?;
                }
                PortValue::Connection { node_id, .. } if !listed.contains_key(node_id) => {
                    return Err(error(&path, format!("no node {node_id}")));
                }
                PortValue::Connection { .. }
                | PortValue::Static { .. }
                | PortValue::Variable { .. } => {}
            }
        }
    }
    Ok(())
}

fn compile_channels(
    definition: &WorkflowDefinition,
) -> Result<BTreeMap<ChannelName, Validator>, PlanError> {
    let mut schemas = BTreeMap::new();
    for (name, channel) in definition.channels.iter().flatten() {
        if let Some(schema) = &channel.schema {
            schemas
                .insert(name.clone(), compile_schema(&format!("channels.{name}.schema"), schema)?);
        }
    }
    for (index, variable) in definition.variables.iter().enumerate() {
        if definition.channels.iter().flatten().any(|(name, _)| name.as_str() == variable.name) {
            let path = format!("variables[{index}].name");
            return Err(error(
                &path,
                format!("{} is a channel; write to it through core.channelWrite", variable.name),
            ));
        }
    }
    Ok(schemas)
}

fn marks_sensitive(definition: &WorkflowDefinition) -> bool {
    definition.variables.iter().any(|variable| variable.sensitive)
        || definition.channels.iter().flatten().any(|(_, channel)| channel.sensitive)
        || definition
            .nodes
            .iter()
            .any(|node| node.output_sensitivity.iter().flatten().any(|(_, marked)| *marked))
}

fn compile_schema(path: &str, schema: &Object) -> Result<Validator, PlanError> {
    jsonschema::draft202012::new(&Value::Object(schema.clone()))
        .map_err(|why| error(path, why.to_string()))
}

fn retries(node: &WorkflowNode) -> Option<u32> {
    u32::try_from(node.settings.as_ref()?.get("maxRetries")?.as_u64()?).ok()
}

fn error(path: &str, message: String) -> PlanError {
    PlanError { path: path.to_owned(), message }
}
