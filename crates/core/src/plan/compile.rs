//! From a definition to its plan: what cannot be run is refused here, what can is put in order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use callboard_protocol::{
    ChannelName, NodeId, Object, PortValue, TriggerRule, WorkflowDefinition, WorkflowNode,
};

use super::{Plan, PlanEdge, PlanError, PlanNode, error};
use crate::child::ChildCall;
use crate::each::{EachPlan, one_run};
use crate::expression::check_expression;
use crate::graph::{Graph, Link, Loop, NodeIndex};
use crate::interrupt::question_schemas;
use crate::mask::MaskingMode;
use crate::mock_agent::MockAgent;
use crate::node::{NodeKind, unfit_config};
use crate::orchestrate::{DispatchPlan, SupervisorPlan};
use crate::run::is_memory_ref;
use crate::schema::{Compiler, Schema};
use crate::talk::TalkPlan;

/// Definitions beyond this are refused: nobody draws them, and every check here is polynomial.
const MAX_NODES: usize = 2_000;
/// Five for each node.
const MAX_EDGES: usize = 10_000;

impl Plan {
    /// Reads and compiles a definition's text.
    pub fn parse(source: &[u8]) -> Result<Self, PlanError> {
        let plan = Self::reopen(source)?;
        plan.check_schemas()?;
        Ok(plan)
    }

    /// As `parse`, for a definition that was accepted before: a schema that is none, or is too costly, lets nothing
    /// through instead of keeping the run from being read.
    pub fn reopen(source: &[u8]) -> Result<Self, PlanError> {
        let definition =
            WorkflowDefinition::parse(source).map_err(|error| PlanError::from(error.0))?;
        Self::compile(definition)
    }

    /// Refuses a definition with a schema that cannot be checked within limits, or with a published node whose
    /// configuration its pack does not allow.
    pub fn check_schemas(&self) -> Result<(), PlanError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    fn compile(definition: WorkflowDefinition) -> Result<Self, PlanError> {
        if definition.nodes.len() > MAX_NODES {
            return Err(error("nodes", format!("more than {MAX_NODES} nodes")));
        }
        if definition.edges.len() > MAX_EDGES {
            return Err(error("edges", format!("more than {MAX_EDGES} edges")));
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
        check_variables(&definition)?;
        if definition.metadata.memory_summary.as_deref().is_some_and(|name| !is_memory_ref(name)) {
            return Err(error("metadata.memorySummary", "is no memory reference".to_owned()));
        }
        let schemas = Schemas::of(&definition);
        let masking = MaskingMode::of(&definition)?;
        let mut plan = Self {
            nodes: Vec::new(),
            by_id: BTreeMap::new(),
            edges: Vec::new(),
            loops: Vec::new(),
            triggers: Vec::new(),
            configurable_schema: schemas.configurable,
            channel_schemas: schemas.channels,
            refused: schemas.unusable.or_else(|| unfit_config(&definition)),
            masking,
            has_sensitive: marks_sensitive(&definition),
            definition,
        };
        plan.arrange(&graph);
        plan.read_configs()?;
        plan.triggers = plan.channel_triggers()?;
        for trigger in &plan.triggers {
            let node = &mut plan.nodes[trigger.node];
            node.is_triggered_only = node.incoming.is_empty();
        }
        Ok(plan)
    }

    /// Reads the configuration of those kinds that have a plan of their own.
    fn read_configs(&mut self) -> Result<(), PlanError> {
        let definition = &self.definition;
        for node in &mut self.nodes {
            match node.kind {
                NodeKind::Child => node.child = Some(ChildCall::of(&node.node, definition)?),
                NodeKind::Talk => node.talk = Some(TalkPlan::of(&node.node, definition)?),
                NodeKind::Supervisor => {
                    node.supervisor = Some(SupervisorPlan::of(&node.node, definition)?);
                }
                NodeKind::Dispatch => {
                    node.dispatch = Some(DispatchPlan::of(&node.node, definition)?);
                }
                NodeKind::Each => {
                    let each = EachPlan::of(&node.node)?;
                    node.dispatch = each.dispatch();
                    node.each = Some(each);
                }
                NodeKind::Invoke => node.dispatch = Some(one_run()),
                NodeKind::MockAgent => node.mock_agent = Some(MockAgent::of(&node.node)?),
                _ => {}
            }
        }
        Ok(())
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
                each: None,
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

fn check_variables(definition: &WorkflowDefinition) -> Result<(), PlanError> {
    for (index, variable) in definition.variables.iter().enumerate() {
        if definition.channels.iter().flatten().any(|(name, _)| name.as_str() == variable.name) {
            let path = format!("variables[{index}].name");
            return Err(error(
                &path,
                format!("{} is a channel; write to it through core.channelWrite", variable.name),
            ));
        }
    }
    Ok(())
}

/// All schemas of a definition, compiled together.
#[derive(Default)]
struct Schemas {
    configurable: Option<Schema>,
    channels: BTreeMap<ChannelName, Schema>,
    compiler: Compiler,
    /// The first that cannot be used.
    unusable: Option<PlanError>,
}

impl Schemas {
    fn of(definition: &WorkflowDefinition) -> Self {
        let mut schemas = Self::default();
        for (name, channel) in definition.channels.iter().flatten() {
            if let Some(source) = &channel.schema {
                let schema = schemas.compile(&format!("channels.{name}.schema"), source);
                schemas.channels.insert(name.clone(), schema);
            }
        }
        if let Some(source) = &definition.configurable_schema {
            schemas.configurable = Some(schemas.compile("configurableSchema", source));
        }
        // Those of questions are compiled again when an answer comes, which few do.
        let asks =
            |node: &&WorkflowNode| matches!(NodeKind::of(node), NodeKind::Gate | NodeKind::Talk);
        for node in definition.nodes.iter().filter(asks) {
            for (path, source) in question_schemas(node) {
                schemas.compile(&format!("nodes.{}.{path}", node.id), source);
            }
        }
        schemas
    }

    fn compile(&mut self, path: &str, source: &Object) -> Schema {
        self.compiler.compile_object(source).unwrap_or_else(|why| {
            self.unusable.get_or_insert_with(|| error(path, why.clone()));
            Schema::unusable(source, &why)
        })
    }
}

fn marks_sensitive(definition: &WorkflowDefinition) -> bool {
    definition.variables.iter().any(|variable| variable.sensitive)
        || definition.channels.iter().flatten().any(|(_, channel)| channel.sensitive)
        || definition
            .nodes
            .iter()
            .any(|node| node.output_sensitivity.iter().flatten().any(|(_, marked)| *marked))
}

fn retries(node: &WorkflowNode) -> Option<u32> {
    u32::try_from(node.settings.as_ref()?.get("maxRetries")?.as_u64()?).ok()
}
