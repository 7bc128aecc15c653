//! Values of ports: the protocol's own, templates, and anything else as it stands.

use std::collections::BTreeSet;

use callboard_core::mentioned_names;
use callboard_protocol::PortValue;
use serde_json::{Map, Value, json};

use super::names::{At, Names, Own};
use super::no_node;
use super::nodes::Written;
use super::places::Places;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::shape::join;
use crate::template::{self, Part, literal};
use crate::tree::{Data, Tree};

/// What came of all ports.
pub(super) struct Ports {
    /// Those of each node, in their order.
    pub(super) ports: Vec<Map<String, Value>>,
    /// The nodes that the templates of each node read.
    pub(super) read: Vec<BTreeSet<String>>,
    /// The bodies of those that go through a list.
    pub(super) bodies: Vec<Option<Value>>,
}

pub(super) fn expand(
    written: &[Written<'_>],
    names: &Names<'_>,
    problems: &mut Problems,
    places: &mut Places,
) -> Ports {
    let mut expanded = Ports { ports: Vec::new(), read: Vec::new(), bodies: Vec::new() };
    let item: BTreeSet<String> = ["item", "index", "total", "steps"].map(str::to_owned).into();
    for (index, node) in written.iter().enumerate() {
        let mut ports = Map::new();
        let mut read = BTreeSet::new();
        for port in node.tree.get("inputs").map_or(&[][..], Tree::entries) {
            let path = join(&join(&node.path, "inputs"), &port.key);
            for canonical in [format!("nodes[{index}].inputs"), format!("nodes.{}.inputs", node.id)]
            {
                places.add(&join(&canonical, &port.key), port.value.spot, &path);
            }
            let own = Own::Nothing;
            let mut template =
                Template { names, written, problems, read: &mut read, path: &path, own };
            ports.insert(port.key.clone(), template.port(&port.value));
        }
        let body = node.config("body").filter(|_| node.type_id == Some("callboard.each"));
        let body = body.filter(|body| matches!(body.data, Data::List(_)));
        let path = format!("{}.config.body", node.path);
        let bodies = body.map(|body| {
            let own = Own::Fixed(&item);
            let template = Template { names, written, problems, read: &mut read, path: &path, own };
            expand_body(body, template)
        });
        expanded.bodies.push(bodies);
        expanded.ports.push(ports);
        expanded.read.push(read);
    }
    expanded
}

/// The words that the protocol's port values begin with.
const TYPES: [&str; 5] = ["static", "literal", "expression", "connection", "variable"];

/// The steps of a body that is computed for every item: what templates of theirs name besides is the item.
fn expand_body(body: &Tree, template: Template<'_>) -> Value {
    let steps = body.items().iter().enumerate().map(|(index, step)| {
        let mut fields = step.value();
        for port in step.get("inputs").map_or(&[][..], Tree::entries) {
            let path = format!("{}[{index}].inputs.{}", template.path, port.key);
            let mut template = Template {
                problems: &mut *template.problems,
                read: &mut *template.read,
                path: &path,
                ..template
            };
            fields["inputs"][&port.key] = template.port(&port.value);
        }
        fields
    });
    steps.collect()
}

struct Template<'a> {
    /// What templates may name beside the names of the workflow.
    own: Own<'a>,
    names: &'a Names<'a>,
    written: &'a [Written<'a>],
    problems: &'a mut Problems,
    read: &'a mut BTreeSet<String>,
    path: &'a str,
}

impl Template<'_> {
    fn port(&mut self, tree: &Tree) -> Value {
        if let Some(kind) = tree.get("type").and_then(Tree::text)
            && TYPES.contains(&kind)
        {
            return self.protocols_own(kind, tree);
        }
        match &tree.data {
            Data::Text(text) => self.text(text, tree),
            Data::List(_) | Data::Map(_) if has_template(tree) => match self.build(tree) {
                Some(expression) => json!({ "type": "expression", "expression": expression }),
                None => json!({ "type": "static", "value": null }),
            },
            _ => json!({ "type": "static", "value": tree.value() }),
        }
    }

    /// A port value as the protocol has it; core checks its expression.
    fn protocols_own(&mut self, kind: &str, tree: &Tree) -> Value {
        let value = tree.value();
        match serde_json::from_value::<PortValue>(value.clone()) {
            Err(error) => {
                let message = format!("is no port value of the type {kind}: {error}");
                let problem = Problem::new(ProblemKind::Shape, tree.spot, self.path, message);
                self.problems.push(
                    problem.hint("a map with a key `type` of your own: {type: static, value: {…}}"),
                );
            }
            Ok(PortValue::Connection { node_id, .. }) => {
                if !self.written.iter().any(|node| node.id == node_id.as_str())
                    && !self.problems.count_only()
                {
                    let spot = tree.get("nodeId").map_or(tree.spot, |id| id.spot);
                    let path = join(self.path, "nodeId");
                    self.problems.push(no_node(node_id.as_str(), spot, &path, self.written));
                }
            }
            Ok(PortValue::Expression { expression }) => {
                if let Err(why) = mentioned_names(&expression) {
                    let path = join(self.path, "expression");
                    self.problems.push(Problem::new(ProblemKind::Shape, tree.spot, &path, why));
                }
            }
            Ok(PortValue::Static { .. } | PortValue::Variable { .. }) => {}
        }
        value
    }

    fn text(&mut self, text: &str, tree: &Tree) -> Value {
        let Some(parts) = self.parts(text, tree) else {
            return json!({ "type": "static", "value": text });
        };
        match parts.as_slice() {
            [] => json!({ "type": "static", "value": "" }),
            [Part::Text(text)] => json!({ "type": "static", "value": text }),
            [Part::Inserted(inserted)] => self.whole(inserted, tree),
            parts => {
                let texts = parts.iter().map(|part| self.piece(part, tree)).collect::<Vec<_>>();
                json!({ "type": "expression", "expression": texts.join(" ~ ") })
            }
        }
    }

    fn parts(&mut self, text: &str, tree: &Tree) -> Option<Vec<Part>> {
        match template::parts(text) {
            Ok(parts) => Some(parts),
            Err(why) => {
                let problem = Problem::new(ProblemKind::Shape, tree.spot, self.path, why);
                self.problems.push(problem.hint("`$${` stands for `${` itself"));
                None
            }
        }
    }

    /// A template that is the whole value keeps the kind of what it names.
    fn whole(&mut self, inserted: &str, tree: &Tree) -> Value {
        let expression = self.expression(inserted, tree);
        let path = template::path(inserted).unwrap_or_default();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["vars", name] => json!({ "type": "variable", "variableName": name }),
            ["nodes", id, key] => json!({ "type": "connection", "nodeId": id, "outputKey": key }),
            _ => json!({ "type": "expression", "expression": expression }),
        }
    }

    fn piece(&mut self, part: &Part, tree: &Tree) -> String {
        match part {
            Part::Text(text) => literal(text),
            Part::Inserted(inserted) => {
                let expression = self.expression(inserted, tree);
                if template::path(inserted).is_some() {
                    expression
                } else {
                    format!("({expression})")
                }
            }
        }
    }

    /// What stands between braces as an expression; its names are checked.
    fn expression(&mut self, inserted: &str, tree: &Tree) -> String {
        let at = At { spot: tree.spot, path: self.path };
        if let Some(path) = template::path(inserted) {
            self.note(&path);
            self.names.check(&path, self.own, at, self.problems);
            return template::expression(&path);
        }
        match mentioned_names(inserted) {
            Ok(mentioned) => {
                for path in mentioned {
                    self.note(&path);
                    self.names.check(&path, self.own, at, self.problems);
                }
            }
            Err(why) => {
                let message = format!("`${{{inserted}}}` is no expression: {why}");
                self.problems.push(Problem::new(ProblemKind::Shape, tree.spot, self.path, message));
            }
        }
        inserted.to_owned()
    }

    fn note(&mut self, path: &[String]) {
        if let [root, id, ..] = path
            && root == "nodes"
        {
            self.read.insert(id.clone());
        }
    }

    /// A list or map with templates in it, as one expression.
    fn build(&mut self, tree: &Tree) -> Option<String> {
        let built = match &tree.data {
            Data::Text(text) => {
                let parts = self.parts(text, tree)?;
                match parts.as_slice() {
                    [] => literal(""),
                    [Part::Inserted(inserted)] => format!("({})", self.expression(inserted, tree)),
                    parts => {
                        let pieces: Vec<String> =
                            parts.iter().map(|part| self.piece(part, tree)).collect();
                        pieces.join(" ~ ")
                    }
                }
            }
            Data::List(items) => {
                let items: Option<Vec<String>> =
                    items.iter().map(|item| self.build(item)).collect();
                format!("[{}]", items?.join(", "))
            }
            Data::Map(entries) => {
                let mut fields = Vec::new();
                for entry in entries {
                    fields.push(format!("{}: {}", literal(&entry.key), self.build(&entry.value)?));
                }
                format!("{{{}}}", fields.join(", "))
            }
            Data::Null => "none".to_owned(),
            Data::Bool(_) | Data::Number(..) => tree.value().to_string(),
        };
        Some(built)
    }
}

fn has_template(tree: &Tree) -> bool {
    match &tree.data {
        Data::Text(text) => text.contains("${"),
        Data::List(items) => items.iter().any(has_template),
        Data::Map(entries) => entries.iter().any(|entry| has_template(&entry.value)),
        Data::Null | Data::Bool(_) | Data::Number(..) => false,
    }
}
