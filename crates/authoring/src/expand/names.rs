//! What templates and conditions can name, and what is wrong with those that name something else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::no_node;
use super::nodes::Written;
use crate::known::nearest;
use crate::nodes::Outputs;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::template::ROOTS;
use crate::tree::{Spot, Tree};

/// Where something is named.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) spot: Spot,
    pub(super) path: &'a str,
}

/// The names of a workflow.
#[derive(Debug)]
pub(super) struct Names<'a> {
    nodes: &'a [Written<'a>],
    /// Declared ones, and those that nodes set.
    variables: BTreeSet<String>,
    declared: BTreeSet<String>,
    /// What can be read of each node, where that is known.
    outputs: BTreeMap<&'a str, Option<BTreeSet<String>>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(nodes: &'a [Written<'a>], variables: &[Value], tree: &Tree) -> Self {
        let names = variables.iter().filter_map(|variable| variable["name"].as_str());
        let declared: BTreeSet<String> = names.map(str::to_owned).collect();
        let mut known = declared.clone();
        let channels = tree.get("channels").map_or(&[][..], Tree::entries);
        known.extend(channels.iter().map(|channel| channel.key.clone()));
        for node in nodes {
            known.insert(node.id.clone());
            known.extend(set_by(node));
        }
        let outputs = nodes.iter().map(|node| (node.id.as_str(), outputs_of(node))).collect();
        Self { nodes, variables: known, declared, outputs }
    }

    /// Adds what is wrong with a path to the problems. `own` are names beside the roots.
    pub(super) fn check(&self, path: &[String], own: Own<'_>, at: At<'_>, problems: &mut Problems) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        match names.as_slice() {
            ["vars", name, ..] => self.check_variable(name, at, problems),
            ["nodes", id, rest @ ..] => self.check_node(id, rest.first().copied(), at, problems),
            ["inputs", name, ..] if !self.declared.is_empty() => {
                if !self.declared.contains(*name) && !problems.count_only() {
                    let message =
                        format!("no variable {name:?} is declared, so no run is given it");
                    let problem = Problem::new(ProblemKind::Reference, at.spot, at.path, message);
                    problems.push(problem.meant(nearest(name, self.declared())));
                }
            }
            [root, ..] if ROOTS.contains(root) => {}
            [name, ..] => {
                let is_known = self.variables.contains(*name)
                    || match own {
                        Own::Nothing => false,
                        Own::Fixed(names) => names.contains(*name) || *name == "output",
                        Own::Anything => true,
                    };
                if !is_known && !problems.count_only() {
                    let message = format!("{name:?} names nothing that there is");
                    let problem = Problem::new(ProblemKind::Reference, at.spot, at.path, message);
                    let near = nearest(name, self.variables.iter().map(String::as_str));
                    problems.push(match near {
                        Some(near) => problem.meant(Some(&format!("vars.{near}"))),
                        None => problem.hint("a template begins with vars, nodes, inputs or ctx"),
                    });
                }
            }
            [] => {}
        }
    }

    /// The outputs of a node as names of an edge's condition.
    pub(super) fn own_of(&self, node: &str) -> Own<'_> {
        match self.outputs.get(node) {
            Some(Some(names)) => Own::Fixed(names),
            Some(None) | None => Own::Anything,
        }
    }

    fn declared(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().map(String::as_str)
    }

    fn check_variable(&self, name: &str, at: At<'_>, problems: &mut Problems) {
        if self.variables.contains(name) || problems.count_only() {
            return;
        }
        let message = format!("there is no variable {name:?}");
        let problem = Problem::new(ProblemKind::Reference, at.spot, at.path, message);
        let near = nearest(name, self.variables.iter().map(String::as_str));
        problems.push(match near {
            Some(near) => problem.meant(Some(&format!("vars.{near}"))),
            None => problem.hint(format!("declare it: variables: {{ {name}: string }}")),
        });
    }

    fn check_node(&self, id: &str, key: Option<&str>, at: At<'_>, problems: &mut Problems) {
        let Some(outputs) = self.outputs.get(id) else {
            if !problems.count_only() {
                problems.push(no_node(id, at.spot, at.path, self.nodes));
            }
            return;
        };
        let (Some(outputs), Some(key)) = (outputs, key) else { return };
        if outputs.contains(key) || problems.count_only() {
            return;
        }
        let message = format!("node {id:?} has no output {key:?}");
        let problem = Problem::new(ProblemKind::Reference, at.spot, at.path, message);
        problems.push(match nearest(key, outputs.iter().map(String::as_str)) {
            Some(near) => problem.meant(Some(&format!("nodes.{id}.{near}"))),
            None if outputs.is_empty() => problem.hint("it has none at all"),
            None => {
                let all: Vec<&str> = outputs.iter().map(String::as_str).take(20).collect();
                problem.hint(format!("it has {}", all.join(", ")))
            }
        });
    }
}

/// Names that stand for something beside the roots and the variables.
#[derive(Debug, Clone, Copy)]
pub(super) enum Own<'a> {
    Nothing,
    Fixed(&'a BTreeSet<String>),
    /// Nobody can say.
    Anything,
}

/// The variables that a node sets.
fn set_by(node: &Written<'_>) -> Vec<String> {
    let texts = |tree: Option<&Tree>| tree.and_then(Tree::text).map(str::to_owned);
    let keys = |tree: Option<&Tree>| -> Vec<String> {
        tree.map_or(&[][..], Tree::entries).iter().map(|entry| entry.key.clone()).collect()
    };
    match node.type_id {
        Some("core.setVariable") => {
            let name = texts(node.config("name")).or_else(|| texts(node.config("variableName")));
            name.into_iter().collect()
        }
        Some("core.channelWrite") => {
            let name = texts(node.config("channelName")).or_else(|| texts(node.config("channel")));
            name.into_iter().collect()
        }
        Some("core.subWorkflow" | "core.dispatch") => keys(node.config("outputMapping")),
        Some("core.identity") => keys(node.tree.get("inputs")),
        _ => Vec::new(),
    }
}

/// What can be read of a node; none where that is not known before it has run.
fn outputs_of(node: &Written<'_>) -> Option<BTreeSet<String>> {
    let known = node.known_type()?;
    match known.outputs {
        Outputs::Open(_) => None,
        Outputs::Fixed(fields) => Some(fields.iter().map(|field| field.name.to_owned()).collect()),
        // What an edge brings has a name of its own, too.
        Outputs::Ports if node.config("memoryAction").is_some() => None,
        Outputs::Ports => {
            let ports = node.tree.get("inputs").map_or(&[][..], Tree::entries);
            let ports = ports.iter().map(|port| port.key.clone());
            Some(ports.chain(["input".to_owned(), "error".to_owned()]).collect())
        }
    }
}
