//! A workflow as an SVG of its own: nodes in layers, from top to bottom.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use callboard_protocol::WorkflowDefinition;

use super::label;

const WIDTH: usize = 200;
const HEIGHT: usize = 52;
const ACROSS: usize = 40;
const DOWN: usize = 56;
/// Letters that fit into a box.
const LETTERS: usize = 28;

/// Light and dark, as whoever looks at it prefers.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1c1917}.type{font-size:11px;fill:#57534e}\
rect{fill:#fff;stroke:#a8a29e}path{fill:none;stroke:#78716c}marker path{fill:#78716c;stroke:none}\
@media(prefers-color-scheme:dark){text{fill:#f5f5f4}.type{fill:#a8a29e}rect{fill:#292524;stroke:#57534e}}";

pub fn svg(definition: &WorkflowDefinition) -> String {
    let layers = layers(definition);
    let mut filled: BTreeMap<usize, usize> = BTreeMap::new();
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for node in &definition.nodes {
        let layer = layers.get(node.id.as_str()).copied().unwrap_or_default();
        let column = filled.entry(layer).or_default();
        let (x, y) = (ACROSS + *column * (WIDTH + ACROSS), ACROSS + layer * (HEIGHT + DOWN));
        places.insert(node.id.as_str(), (x, y));
        *column += 1;
    }
    let width = ACROSS + filled.values().max().copied().unwrap_or(1) * (WIDTH + ACROSS);
    let height = 2 * ACROSS + filled.len().max(1) * (HEIGHT + DOWN) - DOWN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker></defs>\n",
        escaped(&definition.name)
    );
    for edge in &definition.edges {
        let ends = [&edge.source_node_id, &edge.target_node_id];
        let [Some(from), Some(to)] = ends.map(|id| places.get(id.as_str())) else { continue };
        let (x1, y1) = (from.0 + WIDTH / 2, from.1 + HEIGHT);
        let (x2, y2) = (to.0 + WIDTH / 2, to.1);
        let middle = usize::midpoint(y1, y2);
        let _ = writeln!(
            text,
            "<path d=\"M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}\" marker-end=\"url(#end)\"/>"
        );
        if let Some(label) = label(edge) {
            let x = usize::midpoint(x1, x2);
            let label = escaped(&clipped(&label));
            let _ = writeln!(
                text,
                "<text class=\"type\" x=\"{x}\" y=\"{middle}\" text-anchor=\"middle\">{label}</text>"
            );
        }
    }
    for node in &definition.nodes {
        let Some((x, y)) = places.get(node.id.as_str()) else { continue };
        let what = node.agent.as_ref().map_or(node.type_id.as_str(), |agent| &agent.agent_id);
        let (name, what) = (escaped(&clipped(&node.name)), escaped(&clipped(what)));
        let (tx, first, second) = (x + WIDTH / 2, y + 22, y + 40);
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\
             <text x=\"{tx}\" y=\"{first}\" text-anchor=\"middle\">{name}</text>\
             <text class=\"type\" x=\"{tx}\" y=\"{second}\" text-anchor=\"middle\">{what}</text>"
        );
    }
    text.push_str("</svg>\n");
    text
}

/// How far each node is from where the workflow begins, along the longest way that goes in no circle.
fn layers(definition: &WorkflowDefinition) -> BTreeMap<&str, usize> {
    let mut layers: BTreeMap<&str, usize> =
        definition.nodes.iter().map(|node| (node.id.as_str(), 0)).collect();
    let order: BTreeMap<&str, usize> = definition
        .nodes
        .iter()
        .enumerate()
        .map(|(place, node)| (node.id.as_str(), place))
        .collect();
    // Edges that lead back to what was written before are loops, and push nothing down.
    let forward: Vec<(&str, &str)> = definition
        .edges
        .iter()
        .map(|edge| (edge.source_node_id.as_str(), edge.target_node_id.as_str()))
        .filter(|(from, to)| order.get(from) < order.get(to))
        .collect();
    for node in &definition.nodes {
        let here = layers.get(node.id.as_str()).copied().unwrap_or_default();
        for (_, to) in forward.iter().filter(|(from, _)| *from == node.id.as_str()) {
            if let Some(layer) = layers.get_mut(to) {
                *layer = (*layer).max(here + 1);
            }
        }
    }
    layers
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= LETTERS {
        return text.to_owned();
    }
    text.chars().take(LETTERS - 1).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
