//! Workflows in the few words of the test suite, made into definitions.

use callboard_protocol::Object;
use callboard_server::extend::Problem;
use serde::Deserialize;
use serde_json::{Value, json};

/// `{workflowId, nodes: [{nodeId, typeId, config}], edges?}`; without edges the nodes are a chain.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LooseWorkflow {
    #[serde(alias = "id")]
    workflow_id: String,
    nodes: Vec<LooseNode>,
    edges: Option<Vec<Object>>,
    #[serde(default)]
    variables: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LooseNode {
    #[serde(alias = "id")]
    node_id: String,
    type_id: String,
    #[serde(default)]
    config: Object,
    #[serde(default)]
    inputs: Object,
    agent: Option<Value>,
}

impl LooseWorkflow {
    /// The workflow's id and a definition that says everything.
    pub(super) fn into_definition(self) -> Result<(String, Value), Problem> {
        let edges = match self.edges {
            Some(edges) => {
                edges.into_iter().enumerate().map(edge).collect::<Result<Vec<_>, _>>()?
            }
            None => self.nodes.windows(2).map(link).collect(),
        };
        let nodes: Vec<Value> = self.nodes.into_iter().map(node).collect();
        let definition = json!({
            "id": self.workflow_id, "name": self.workflow_id, "version": "1.0",
            "nodes": nodes, "edges": edges, "triggers": [], "variables": self.variables,
            "metadata": {}, "settings": {},
        });
        Ok((self.workflow_id, definition))
    }
}

fn node(loose: LooseNode) -> Value {
    let mut node = json!({
        "id": loose.node_id, "typeId": loose.type_id, "name": loose.node_id,
        "position": { "x": 0, "y": 0 }, "config": loose.config, "inputs": loose.inputs,
    });
    if let Some(agent) = loose.agent {
        node["agent"] = agent;
    }
    node
}

fn link(pair: &[LooseNode]) -> Value {
    let (from, to) = (&pair[0].node_id, &pair[1].node_id);
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
}

/// An edge says more than its ends where it wants to; only the names of the ends vary.
fn edge((place, mut edge): (usize, Object)) -> Result<Value, Problem> {
    for (name, others) in [("sourceNodeId", ["source", "from"]), ("targetNodeId", ["target", "to"])]
    {
        let other = others.iter().find_map(|other| edge.remove(*other));
        let end = edge.remove(name).or(other);
        let end = end
            .ok_or_else(|| Problem::invalid_at(&format!("edges[{place}].{name}"), "is required"))?;
        edge.insert(name.to_owned(), end);
    }
    edge.entry("id").or_insert_with(|| format!("edge-{place}").into());
    Ok(edge.into())
}
