//! Edges: `a -> b`, `after`, `next`, what templates imply, and the protocol's list.

use std::collections::{BTreeMap, BTreeSet};

use callboard_core::mentioned_names;
use serde_json::{Map, Value, json};

use super::names::{At, Names};
use super::no_node;
use super::nodes::Written;
use super::places::Places;
use crate::problem::{Problem, ProblemKind, Problems};
use crate::shape::join;
use crate::template;
use crate::tree::{Data, Tree};

#[derive(Debug, Default)]
pub(super) struct Edges {
    edges: Vec<Map<String, Value>>,
    taken: BTreeSet<String>,
    /// The ends of edges that say nothing else.
    bare: BTreeSet<(String, String)>,
}

/// As core has it.
const MOST_EDGES: usize = 10_000;
/// More nodes that read others than anybody draws; past it, edges are written by hand.
const MOST_IMPLIED: usize = 2_000;

/// What all edges are read with.
struct Reader<'a> {
    written: &'a [Written<'a>],
    names: &'a Names<'a>,
    problems: &'a mut Problems,
    places: &'a mut Places,
}

impl Edges {
    /// All that somebody wrote.
    pub(super) fn explicit(
        tree: &Tree,
        written: &[Written<'_>],
        names: &Names<'_>,
        problems: &mut Problems,
        places: &mut Places,
    ) -> Self {
        let mut edges = Self::default();
        let mut reader = Reader { written, names, problems, places };
        let listed = tree.get("edges").map_or(&[][..], Tree::items);
        // Ids that are written come before those that are made up.
        let ids = listed.iter().filter_map(|edge| edge.get("id")?.text());
        edges.taken = ids.map(str::to_owned).collect();
        for (index, edge) in listed.iter().enumerate() {
            let path = format!("edges[{index}]");
            match edge.text() {
                Some(chain) => edges.chain(chain, edge, &path, &mut reader),
                None => edges.listed(edge, &path, &mut reader),
            }
        }
        for node in written {
            for (key, is_after) in [("after", true), ("next", false)] {
                let Some(links) = node.tree.get(key) else { continue };
                let path = join(&node.path, key);
                let links: Vec<(&Tree, String)> = match &links.data {
                    Data::List(items) => {
                        let items = items.iter().enumerate();
                        items.map(|(index, item)| (item, format!("{path}[{index}]"))).collect()
                    }
                    _ => vec![(links, path)],
                };
                for (link, path) in links {
                    edges.link(&node.id, is_after, link, &path, &mut reader);
                }
            }
        }
        edges
    }

    /// `a -> b -> c`.
    fn chain(&mut self, chain: &str, tree: &Tree, path: &str, reader: &mut Reader<'_>) {
        let ids: Vec<&str> = chain.split("->").map(str::trim).collect();
        if ids.len() < 2 || ids.iter().any(|id| id.is_empty()) {
            let message = format!("{chain:?} is no edge");
            let problem = Problem::new(ProblemKind::Shape, tree.spot, path, message);
            reader.problems.push(problem.hint("write `a -> b`, or {from: a, to: b}"));
            return;
        }
        for pair in ids.windows(2) {
            let ends = [(pair[0], tree, path.to_owned()), (pair[1], tree, path.to_owned())];
            self.add(ends, Map::new(), tree, path, reader);
        }
    }

    fn listed(&mut self, edge: &Tree, path: &str, reader: &mut Reader<'_>) {
        if !matches!(edge.data, Data::Map(_)) {
            return;
        }
        let mut ends = Vec::new();
        for (short, long) in [("from", "sourceNodeId"), ("to", "targetNodeId")] {
            let found = [long, short].into_iter().find_map(|key| Some((key, edge.get(key)?)));
            match found {
                Some((key, tree)) => {
                    let Some(id) = tree.text() else { return };
                    ends.push((id, tree, join(path, key)));
                }
                None => {
                    let message = format!("needs `{short}`");
                    let problem = Problem::new(ProblemKind::Shape, edge.spot, path, message);
                    reader.problems.push(problem.hint(format!("{short}: id of a node")));
                }
            }
        }
        let Ok(ends) = <[_; 2]>::try_from(ends) else { return };
        let mut fields = Map::new();
        for entry in edge.entries() {
            let key = match entry.key.as_str() {
                "from" | "to" | "sourceNodeId" | "targetNodeId" => continue,
                "when" => "condition",
                "rule" => "triggerRule",
                key => key,
            };
            let value = if key == "condition" {
                condition(&entry.value, ends[0].0, &join(path, &entry.key), reader)
            } else {
                entry.value.value()
            };
            fields.insert(key.to_owned(), value);
        }
        self.add(ends, fields, edge, path, reader);
    }

    fn link(
        &mut self,
        own: &str,
        is_after: bool,
        link: &Tree,
        path: &str,
        reader: &mut Reader<'_>,
    ) {
        let (other, place, at) = match link.text() {
            Some(id) => (id, link, path.to_owned()),
            None => match link.get("node").and_then(|node| Some((node.text()?, node))) {
                Some((id, node)) => (id, node, join(path, "node")),
                None => return,
            },
        };
        let source = if is_after { other } else { own };
        let mut fields = Map::new();
        for entry in link.entries() {
            let key = match entry.key.as_str() {
                "when" => "condition",
                "rule" => "triggerRule",
                "output" => "sourceOutput",
                "input" => "targetInput",
                "label" => "label",
                _ => continue,
            };
            let value = if key == "condition" {
                condition(&entry.value, source, &join(path, &entry.key), reader)
            } else {
                entry.value.value()
            };
            fields.insert(key.to_owned(), value);
        }
        let mine = (own, link, at.clone());
        let theirs = (other, place, at);
        let ends = if is_after { [theirs, mine] } else { [mine, theirs] };
        self.add(ends, fields, link, path, reader);
    }

    fn add(
        &mut self,
        ends: [(&str, &Tree, String); 2],
        mut fields: Map<String, Value>,
        tree: &Tree,
        path: &str,
        reader: &mut Reader<'_>,
    ) {
        for (id, place, path) in &ends {
            if !reader.written.iter().any(|node| node.id == *id) && !reader.problems.count_only() {
                reader.problems.push(no_node(id, place.spot, path, reader.written));
            }
        }
        let [(source, ..), (target, ..)] = ends;
        // One that stands in two nodes, as `next` here and `after` there, is one edge.
        let is_bare = fields.is_empty();
        if is_bare && !self.bare.insert((source.to_owned(), target.to_owned())) {
            return;
        }
        if self.edges.len() == MOST_EDGES {
            let message = format!("more than {MOST_EDGES} edges");
            let problem = Problem::new(ProblemKind::Shape, tree.spot, "edges", message);
            reader.problems.push(problem);
        }
        if self.edges.len() > MOST_EDGES {
            return;
        }
        reader.places.add(&format!("edges[{}]", self.edges.len()), tree.spot, path);
        if !fields.contains_key("id") {
            fields.insert("id".into(), self.free_id(source, target).into());
        }
        fields.insert("sourceNodeId".into(), source.into());
        fields.insert("targetNodeId".into(), target.into());
        self.edges.push(fields);
    }

    fn free_id(&mut self, source: &str, target: &str) -> String {
        let first = format!("{source}-{target}");
        let numbers = (2..=self.edges.len() + 2).map(|number| format!("{first}-{number}"));
        let mut names = std::iter::once(first.clone()).chain(numbers);
        let free = names.find(|name| !self.taken.contains(name)).unwrap_or(first);
        self.taken.insert(free.clone());
        free
    }

    /// A node that reads another comes after it, unless the edges say something about that already.
    pub(super) fn add_implied(&mut self, written: &[Written<'_>], read: &[BTreeSet<String>]) {
        let mut next: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for edge in &self.edges {
            let end =
                |key: &str| edge.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            next.entry(end("sourceNodeId")).or_default().push(end("targetNodeId"));
        }
        let known: BTreeSet<&str> = written.iter().map(|node| node.id.as_str()).collect();
        let pairs = written.iter().zip(read);
        let pairs = pairs.flat_map(|(node, sources)| sources.iter().map(move |it| (it, &node.id)));
        for (source, target) in pairs.take(MOST_IMPLIED) {
            let is_settled =
                source == target || leads(&next, source, target) || leads(&next, target, source);
            if known.contains(source.as_str()) && !is_settled {
                let id = self.free_id(source, target);
                let edge = json!({ "id": id, "sourceNodeId": source, "targetNodeId": target });
                self.edges.extend(edge.as_object().cloned());
                next.entry(source.clone()).or_default().push(target.clone());
            }
        }
    }

    pub(super) fn value(self) -> Value {
        self.edges.into_iter().map(Value::Object).collect()
    }
}

fn leads(next: &BTreeMap<String, Vec<String>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut stack = vec![from];
    while let Some(node) = stack.pop() {
        for target in next.get(node).into_iter().flatten() {
            if target == to {
                return true;
            }
            if seen.insert(target) {
                stack.push(target);
            }
        }
    }
    false
}

/// A text is an expression; with or without `${…}` around it.
fn condition(written: &Tree, source: &str, path: &str, reader: &mut Reader<'_>) -> Value {
    let (expression, value) = match written.text() {
        Some(text) => {
            let bare = text.trim().strip_prefix("${").and_then(|text| text.strip_suffix('}'));
            let text = bare.unwrap_or(text).trim();
            let text = template::path(text).map_or(text.to_owned(), |it| template::expression(&it));
            (Some(text.clone()), json!({ "type": "expression", "expression": text }))
        }
        None => {
            let expression = written.get("expression").and_then(Tree::text);
            (expression.map(str::to_owned), written.value())
        }
    };
    let Some(expression) = expression else { return value };
    let at = At { spot: written.spot, path };
    match mentioned_names(&expression) {
        Ok(mentioned) => {
            // In the protocol's own form anything may be named, as its clients rely on.
            let is_short = written.text().is_some();
            for path in mentioned.iter().filter(|_| is_short) {
                reader.names.check(path, reader.names.own_of(source), at, reader.problems);
            }
        }
        Err(why) => reader.problems.push(Problem::new(ProblemKind::Shape, at.spot, path, why)),
    }
    value
}
