//! Nodes: a map of id to node, or the protocol's list; with their types, names and places.

use std::collections::BTreeSet;

use callboard_core::why_not_run;
use serde_json::{Map, Value, json};

use super::Config;
use super::places::Places;
use crate::known::nearest;
use crate::nodes::{NodeType, is_of_the_suite, node_type, node_types};
use crate::problem::{Problem, ProblemKind, Problems};
use crate::shape::{Shape, join};
use crate::tree::{Data, Entry, Spot, Tree};

/// As core has it.
const MOST_NODES: usize = 2_000;
/// How far an editor draws two nodes from each other.
const APART: usize = 240;
/// What a node of an agent is.
const OF_AGENTS: &str = "core.identity";

/// A node as it was written.
#[derive(Debug)]
pub(super) struct Written<'a> {
    pub(super) id: String,
    pub(super) tree: &'a Tree,
    pub(super) spot: Spot,
    /// `nodes.write`, or `nodes[2]`.
    pub(super) path: String,
    pub(super) type_id: Option<&'a str>,
}

impl Written<'_> {
    pub(super) fn is_an_agents(&self) -> bool {
        self.tree.get("agent").is_some()
    }

    pub(super) fn config(&self, key: &str) -> Option<&Tree> {
        self.tree.get("config")?.get(key)
    }

    /// The row of its type, unless an agent does the work.
    pub(super) fn known_type(&self) -> Option<&'static NodeType> {
        self.type_id.filter(|_| !self.is_an_agents()).and_then(node_type)
    }
}

pub(super) fn list<'a>(tree: &'a Tree, problems: &mut Problems) -> Vec<Written<'a>> {
    let Some(nodes) = tree.get("nodes") else { return Vec::new() };
    if nodes.entries().len() + nodes.items().len() > MOST_NODES {
        let message = format!("more than {MOST_NODES} nodes");
        problems.push(Problem::new(ProblemKind::Shape, nodes.spot, "nodes", message));
        return Vec::new();
    }
    let named = nodes.entries().iter().map(|entry| {
        let own = entry.value.get("id").and_then(Tree::text);
        (Some(own.unwrap_or(&entry.key)), &entry.value, entry.spot, join("nodes", &entry.key))
    });
    let listed = nodes.items().iter().enumerate().map(|(index, node)| {
        (node.get("id").and_then(Tree::text), node, node.spot, format!("nodes[{index}]"))
    });
    let mut taken = BTreeSet::new();
    let mut written = Vec::new();
    for (id, tree, spot, path) in named.chain(listed) {
        if !matches!(tree.data, Data::Map(_)) {
            continue;
        }
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            if tree.get("id").is_none_or(|id| id.text() == Some("")) {
                let problem = Problem::new(ProblemKind::Shape, spot, &path, "needs `id`".into());
                problems.push(problem.hint("id: name of the node, unique in the workflow"));
            }
            continue;
        };
        if !taken.insert(id) {
            let message = format!("a node {id:?} stands in this workflow twice");
            let spot = tree.get("id").map_or(spot, |id| id.spot);
            problems.push(Problem::new(ProblemKind::Shape, spot, &join(&path, "id"), message));
            continue;
        }
        let typed = tree.get("typeId").or_else(|| tree.get("type"));
        let type_id = typed.and_then(Tree::text);
        let type_id = type_id.or(tree.get("agent").filter(|_| typed.is_none()).map(|_| OF_AGENTS));
        written.push(Written { id: id.to_owned(), tree, spot, path, type_id });
    }
    written
}

pub(super) fn expand(
    written: &[Written<'_>],
    ports: Vec<Map<String, Value>>,
    config: Config,
    problems: &mut Problems,
    places: &mut Places,
) -> Value {
    let mut nodes = Vec::new();
    for (index, (node, inputs)) in written.iter().zip(ports).enumerate() {
        check_type(node, problems);
        check_config(node, config, problems);
        place(node, index, places);
        let mut fields = Map::new();
        for entry in node.tree.entries() {
            if !matches!(entry.key.as_str(), "type" | "after" | "next") {
                fields.insert(entry.key.clone(), entry.value.value());
            }
        }
        fields.insert("id".into(), node.id.as_str().into());
        if let Some(type_id) = node.type_id {
            fields.insert("typeId".into(), type_id.into());
        }
        if let Some(agent) = node.tree.get("agent").and_then(Tree::text) {
            fields.insert("agent".into(), json!({ "agentId": agent }));
        }
        fields.entry("name").or_insert_with(|| node.id.as_str().into());
        fields.entry("position").or_insert_with(|| json!({ "x": index * APART, "y": 0 }));
        let config = fields.entry("config").or_insert_with(|| json!({}));
        if config.is_null() {
            *config = json!({});
        }
        fields.insert("inputs".into(), Value::Object(inputs));
        nodes.push(Value::Object(fields));
    }
    Value::Array(nodes)
}

/// Core names nodes by their place in the list, and by their id.
fn place(node: &Written<'_>, index: usize, places: &mut Places) {
    let both = [format!("nodes[{index}]"), join("nodes", &node.id)];
    for canonical in both {
        places.add(&canonical, node.spot, &node.path);
        for entry in node.tree.entries() {
            let path = join(&node.path, &entry.key);
            places.add(&join(&canonical, &entry.key), entry.value.spot, &path);
            if entry.key == "config" {
                for setting in entry.value.entries() {
                    let canonical = join(&join(&canonical, "config"), &setting.key);
                    places.add(&canonical, setting.value.spot, &join(&path, &setting.key));
                }
            }
        }
    }
}

fn check_type(node: &Written<'_>, problems: &mut Problems) {
    let typed = node.tree.get("typeId").or_else(|| node.tree.get("type"));
    let Some(type_id) = node.type_id else {
        if typed.is_none() {
            let message = "needs `type`, or `agent`".to_owned();
            let problem = Problem::new(ProblemKind::Shape, node.spot, &node.path, message);
            problems.push(problem.hint("`callboard nodes list` shows all types"));
        }
        return;
    };
    if let (Some(one), Some(other)) = (node.tree.get("typeId"), node.tree.get("type"))
        && one.text() != other.text()
    {
        let message = "`type` and `typeId` are the same thing; write one of them".to_owned();
        let path = join(&node.path, "type");
        problems.push(Problem::new(ProblemKind::Shape, other.spot, &path, message));
    }
    let is_known = node.is_an_agents() || node_type(type_id).is_some() || is_of_the_suite(type_id);
    if is_known || problems.count_only() {
        return;
    }
    let spot = typed.map_or(node.spot, |typed| typed.spot);
    let key = if node.tree.get("typeId").is_some() { "typeId" } else { "type" };
    let why = why_not_run(type_id).map(|why| format!(": {why}")).unwrap_or_default();
    let message = format!("this host runs no node type {type_id:?}{why}");
    let path = join(&node.path, key);
    let mut problem = Problem::new(ProblemKind::NodeType, spot, &path, message);
    problem.unknown_type = Some(type_id.to_owned());
    let near = nearest(type_id, node_types().iter().map(|known| known.type_id));
    problems.push(match near {
        Some(near) => problem.meant(Some(near)),
        None => problem.hint("`callboard nodes list` shows all types"),
    });
}

fn check_config(node: &Written<'_>, strict: Config, problems: &mut Problems) {
    let (Some(known), Some(config)) = (node.known_type(), node.tree.get("config")) else { return };
    if !matches!(config.data, Data::Map(_)) {
        return;
    }
    let path = join(&node.path, "config");
    // What is required of it is said by core, or comes through a port.
    let optional: Vec<_> = known.config.iter().map(|field| field.optional()).collect();
    match strict {
        Config::AllKeys => {
            Shape::check_record(&optional, config, &path, problems);
            refuse_templates(config, &path, problems);
        }
        Config::KnownKeys => Shape::check_open(&optional, config, &path, problems),
    }
}

/// Templates are filled in inputs; a config is taken to the letter, and a person would be shown the template itself.
fn refuse_templates(config: &Tree, path: &str, problems: &mut Problems) {
    let Data::Map(entries) = &config.data else { return };
    for Entry { key, value, .. } in entries {
        let Data::Text(text) = &value.data else { continue };
        if text.replace("$${", "").contains("${") {
            let message = "a template is filled in inputs only".to_owned();
            let problem = Problem::new(ProblemKind::Shape, value.spot, &join(path, key), message);
            problems.push(
                problem.hint(format!("write it as `{key}` of `inputs`, where the type takes it")),
            );
        }
    }
}
