//! What a case expects, and how what came of it differs.

use callboard_protocol::Object;
use serde_json::Value;

use super::fields;
use super::script::Played;
use crate::tree::Tree;

/// What must come of a run.
#[derive(Debug)]
pub(super) struct Expected {
    status: String,
    error: Option<String>,
    outputs: Object,
    variables: Object,
    nodes: Object,
    given: Object,
    events: Vec<String>,
    took: Option<i64>,
}

impl Expected {
    pub(super) fn of(tree: &Tree) -> Self {
        let text = |key: &str| tree.get(key).and_then(Tree::text).map(str::to_owned);
        let error = text("error");
        let usual = if error.is_some() { "failed" } else { "completed" };
        let events = tree.get("events").map_or(&[][..], Tree::items);
        Self {
            status: text("status").unwrap_or_else(|| usual.to_owned()),
            error,
            outputs: fields(tree, "outputs"),
            variables: fields(tree, "variables"),
            nodes: fields(tree, "nodes"),
            given: fields(tree, "given"),
            events: events.iter().filter_map(|event| event.text().map(str::to_owned)).collect(),
            took: tree.get("took").and_then(|took| took.value().as_i64()),
        }
    }

    pub(super) fn differences(&self, played: &Played) -> Vec<String> {
        let mut found = Vec::new();
        let snapshot = &played.snapshot;
        let status = snapshot.status.as_str();
        if status != self.status {
            let why = match (&snapshot.error, &snapshot.current_node_id) {
                (Some(error), _) => format!(" ({}: {})", error.code, error.message),
                (None, Some(node)) => format!(" (at node {node}; `answers` has nothing for it)"),
                (None, None) => String::new(),
            };
            found.push(format!("status: expected {}, got {status}{why}", self.status));
        }
        let code = snapshot.error.as_ref().map(|error| error.code.as_str());
        if let Some(expected) = &self.error
            && code != Some(expected)
        {
            found.push(format!("error: expected {expected}, got {}", code.unwrap_or("none")));
        }
        let ended = played.log.iter().rev().find(|entry| entry.event.kind() == "run.completed");
        let outputs = ended.map(|entry| entry.event.payload()["outputs"].clone());
        let outputs = outputs.and_then(|it| it.as_object().cloned()).unwrap_or_default();
        compare("outputs", &self.outputs, &outputs, &mut found);
        compare("variables", &self.variables, &snapshot.variables, &mut found);
        for (node, expected) in &self.nodes {
            let state = snapshot.node_states.iter().find(|(id, _)| id.as_str() == node);
            let state = state.map_or("pending", |(_, state)| state.status.as_str());
            if expected.as_str() != Some(state) {
                found.push(format!("nodes.{node}: expected {}, got {state}", plain(expected)));
            }
        }
        for (node, expected) in &self.given {
            let given = played.given.get(node).cloned().unwrap_or_default();
            let expected = expected.as_object().cloned().unwrap_or_default();
            compare(&format!("given.{node}"), &expected, &given, &mut found);
        }
        found.extend(self.missing_event(played));
        if let Some(took) = self.took
            && took != played.took_ms
        {
            found.push(format!("took: expected {took} ms, got {} ms", played.took_ms));
        }
        found
    }

    /// The first expected event that does not come after the one before it. `node.completed sort` names a node, too.
    fn missing_event(&self, played: &Played) -> Option<String> {
        let mut log = played.log.iter();
        let missing = self.events.iter().find(|expected| {
            let mut words = expected.split_whitespace();
            let (kind, node) = (words.next().unwrap_or_default(), words.next());
            !log.any(|entry| {
                let own = entry.event.node_id().map(|id| id.as_str());
                entry.event.kind() == kind && (node.is_none() || own == node)
            })
        })?;
        Some(format!("events: {missing} does not come where it is expected"))
    }
}

/// Everything that is expected must be there; other things may be.
fn compare(path: &str, expected: &Object, got: &Object, found: &mut Vec<String>) {
    for (name, expected) in expected {
        let path = format!("{path}.{name}");
        match (expected, got.get(name)) {
            (Value::Object(expected), Some(Value::Object(got))) => {
                compare(&path, expected, got, found);
            }
            (expected, Some(got)) if is_same(expected, got) => {}
            (expected, got) => {
                let got = got.map_or("nothing".to_owned(), plain);
                found.push(format!("{path}: expected {}, got {got}", plain(expected)));
            }
        }
    }
}

/// 1 and 1.0 are the same number, whoever wrote them.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
