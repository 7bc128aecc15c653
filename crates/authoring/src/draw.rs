//! A workflow as a picture in text: for Mermaid, and for a terminal.

mod svg;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use callboard_protocol::{
    ConditionType, EdgeCondition, TriggerRule, WorkflowDefinition, WorkflowEdge,
};

pub use svg::svg;

/// A flowchart that Mermaid draws.
pub fn mermaid(definition: &WorkflowDefinition) -> String {
    let mut text = String::from("flowchart TD\n");
    let numbers: BTreeMap<&str, usize> = definition
        .nodes
        .iter()
        .enumerate()
        .map(|(place, node)| (node.id.as_str(), place))
        .collect();
    for (place, node) in definition.nodes.iter().enumerate() {
        let what = match &node.agent {
            Some(agent) => agent.agent_id.as_str(),
            None => node.type_id.as_str(),
        };
        let label = format!("{}<br/><small>{}</small>", escaped(&node.name), escaped(what));
        let (open, close) = match node.type_id.as_str() {
            "core.approvalGate" | "core.clarificationGate" | "core.conversationGate" => {
                ("{{", "}}")
            }
            "core.conditional" => ("{", "}"),
            _ => ("[", "]"),
        };
        let _ = writeln!(text, "  n{place}{open}\"{label}\"{close}");
    }
    for edge in &definition.edges {
        let ends = [&edge.source_node_id, &edge.target_node_id];
        let [Some(from), Some(to)] = ends.map(|id| numbers.get(id.as_str())) else { continue };
        let arrow = match label(edge) {
            Some(label) => format!("-- \"{}\" -->", escaped(&label)),
            None => "-->".to_owned(),
        };
        let _ = writeln!(text, "  n{from} {arrow} n{to}");
    }
    text
}

/// Mermaid reads quotes and angle brackets as its own.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("#quot;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '#' => escaped.push_str("#35;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A tree from each node that nothing leads to. A node that stands higher up is named and not drawn again.
pub fn terminal(definition: &WorkflowDefinition) -> String {
    let mut next: BTreeMap<&str, Vec<&WorkflowEdge>> = BTreeMap::new();
    let mut entered = BTreeSet::new();
    for edge in &definition.edges {
        next.entry(edge.source_node_id.as_str()).or_default().push(edge);
        entered.insert(edge.target_node_id.as_str());
    }
    let mut picture = Picture { definition, next, drawn: BTreeSet::new(), text: String::new() };
    let ids: Vec<&str> = definition.nodes.iter().map(|node| node.id.as_str()).collect();
    for id in ids.iter().filter(|id| !entered.contains(**id)) {
        picture.node(id, None, "", "");
    }
    // What is left lies in loops that nothing leads into.
    for id in ids {
        if !picture.drawn.contains(id) {
            picture.node(id, None, "", "");
        }
    }
    picture.text
}

struct Picture<'a> {
    definition: &'a WorkflowDefinition,
    next: BTreeMap<&'a str, Vec<&'a WorkflowEdge>>,
    drawn: BTreeSet<&'a str>,
    text: String,
}

impl<'a> Picture<'a> {
    fn node(&mut self, id: &'a str, by: Option<String>, lead: &str, below: &str) {
        let node = self.definition.nodes.iter().find(|node| node.id.as_str() == id);
        let what = node.map_or("", |node| match &node.agent {
            Some(agent) => agent.agent_id.as_str(),
            None => node.type_id.as_str(),
        });
        let by = by.map(|label| format!("({label}) ")).unwrap_or_default();
        if !self.drawn.insert(id) {
            let _ = writeln!(self.text, "{lead}{by}{id} ↑");
            return;
        }
        let _ = writeln!(self.text, "{lead}{by}{id}  {what}");
        // Deeper than a screen is wide, nobody sees it.
        if below.chars().count() > 200 {
            return;
        }
        let edges = self.next.get(id).cloned().unwrap_or_default();
        let last = edges.len().saturating_sub(1);
        for (place, edge) in edges.into_iter().enumerate() {
            let (mark, under) =
                if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (lead, deeper) = (format!("{below}{mark}"), format!("{below}{under}"));
            self.node(edge.target_node_id.as_str(), label(edge), &lead, &deeper);
        }
    }
}

/// What an edge says about when it is followed.
fn label(edge: &WorkflowEdge) -> Option<String> {
    let rule = match edge.trigger_rule {
        TriggerRule::AllSuccess => None,
        TriggerRule::AnySuccess => Some("any success"),
        TriggerRule::AllComplete => Some("all complete"),
        TriggerRule::NoneFailed => Some("none failed"),
        TriggerRule::AnyFailed => Some("on failure"),
    };
    let condition = edge.condition.as_ref().map(condition_words);
    let parts: Vec<String> =
        edge.label.clone().into_iter().chain(condition).chain(rule.map(str::to_owned)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn condition_words(condition: &EdgeCondition) -> String {
    if let Some(expression) = &condition.expression {
        return format!("if {expression}");
    }
    let sign = match condition.kind {
        Some(ConditionType::NotEquals) => "!=",
        Some(ConditionType::Contains) => "contains",
        Some(ConditionType::Regex) => "matches",
        Some(ConditionType::Equals | ConditionType::Expression) | None => "=",
    };
    let left = condition.left.as_deref().unwrap_or("output");
    let right = condition.right.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("if {left} {sign} {right}")
}
