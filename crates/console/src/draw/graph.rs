//! The picture of a definition: nodes in layers from left to right, loops bent back below, each node with its state.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};
use serde_json::Value;

use crate::value::{cut, items, text};
use crate::words::look;

const WIDTH: i32 = 176;
const HEIGHT: i32 = 44;
const GAP_X: i32 = 56;
const GAP_Y: i32 = 20;
const MARGIN: i32 = 12;
/// A picture with more than this tells nobody anything; what is beyond it is left out and said.
const MOST_NODES: usize = 300;
const MOST_EDGES: usize = 1200;

/// What is known of a node beside its definition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark {
    /// Empty while it has none.
    pub(crate) status: String,
    pub(crate) link: Option<String>,
}

struct Node<'a> {
    id: &'a str,
    name: &'a str,
    kind: &'a str,
}

struct Layout {
    /// Layer and place in it.
    places: Vec<(i32, i32)>,
    /// Edges as pairs of nodes, and whether they lead back.
    edges: Vec<(usize, usize, bool)>,
}

/// Draws a definition; None where it has no nodes.
pub(crate) fn graph(definition: &Value, mark: impl Fn(&str) -> Mark) -> Option<Markup> {
    let all = items(definition, "/nodes");
    let nodes: Vec<Node<'_>> = all.iter().take(MOST_NODES).map(read_node).collect();
    if nodes.is_empty() {
        return None;
    }
    let layout = arrange(&nodes, items(definition, "/edges"));
    let right = layout.places.iter().map(|(layer, _)| layer).max().copied().unwrap_or_default();
    let low = layout.places.iter().map(|(_, place)| place).max().copied().unwrap_or_default();
    let loops =
        i32::try_from(layout.edges.iter().filter(|edge| edge.2).count()).unwrap_or(0).min(8);
    let (width, height) = (
        2 * MARGIN + (right + 1) * (WIDTH + GAP_X) - GAP_X,
        2 * MARGIN + (low + 1) * (HEIGHT + GAP_Y) - GAP_Y + loops * 14,
    );
    let left_out = all.len() - nodes.len();
    Some(html! {
        div.graph tabindex="0" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="group" aria-label="Graph of the workflow" {
                defs {
                    marker #arrow viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
                        path d="M0 0.5 8 4 0 7.5z" {}
                    }
                }
                @for edge in &layout.edges { (draw_edge(*edge, &layout.places, low)) }
                @for (node, place) in nodes.iter().zip(&layout.places) { (draw_node(node, *place, &mark(node.id))) }
            }
            @if left_out > 0 { p.muted { (left_out) " more nodes are not drawn." } }
        }
    })
}

fn read_node(node: &Value) -> Node<'_> {
    let (id, name) = (text(node, "/id"), text(node, "/name"));
    let agent = text(node, "/agent/agentId");
    let kind = if agent.is_empty() { text(node, "/typeId") } else { agent };
    Node { id, name: if name.is_empty() { id } else { name }, kind }
}

fn arrange(nodes: &[Node<'_>], edges: &[Value]) -> Layout {
    let index: BTreeMap<&str, usize> = nodes.iter().map(|node| node.id).zip(0..).collect();
    let ends = |edge: &Value| {
        let find =
            |names: [&str; 2]| names.iter().find_map(|name| index.get(text(edge, name)).copied());
        Some((find(["/sourceNodeId", "/source"])?, find(["/targetNodeId", "/target"])?))
    };
    let pairs: Vec<(usize, usize)> = edges.iter().take(MOST_EDGES).filter_map(ends).collect();
    let back = leads_back(nodes.len(), &pairs);
    let layers = layers(nodes.len(), &pairs, &back);
    let places = rows(&layers, &pairs, &back);
    let edges = pairs.iter().zip(back).map(|(&(from, to), back)| (from, to, back)).collect();
    Layout { places, edges }
}

/// Which edges close a loop, walking from the first node on. Written without recursion: definitions come from outside.
fn leads_back(count: usize, pairs: &[(usize, usize)]) -> Vec<bool> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (edge, (from, _)) in pairs.iter().enumerate() {
        out[*from].push(edge);
    }
    let mut back = vec![false; pairs.len()];
    // 0 unseen, 1 on the way, 2 done.
    let mut state = vec![0_u8; count];
    for root in 0..count {
        let mut stack = vec![(root, 0_usize)];
        if state[root] != 0 {
            continue;
        }
        state[root] = 1;
        while let Some((node, next)) = stack.pop() {
            let Some(&edge) = out[node].get(next) else {
                state[node] = 2;
                continue;
            };
            stack.push((node, next + 1));
            let to = pairs[edge].1;
            match state[to] {
                0 => {
                    state[to] = 1;
                    stack.push((to, 0));
                }
                1 => back[edge] = true,
                _ => {}
            }
        }
    }
    back
}

/// The longest way to each node over edges that lead forward.
fn layers(count: usize, pairs: &[(usize, usize)], back: &[bool]) -> Vec<i32> {
    let forward = || pairs.iter().zip(back).filter(|(_, back)| !**back).map(|(pair, _)| *pair);
    let mut layers = vec![0_i32; count];
    // Without loops no way is longer than there are nodes.
    for _ in 0..count {
        let mut is_settled = true;
        for (from, to) in forward() {
            if layers[to] <= layers[from] {
                layers[to] = layers[from] + 1;
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    layers
}

/// Places within layers: near those that a node comes from, in the order of the definition where that says nothing.
fn rows(layers: &[i32], pairs: &[(usize, usize)], back: &[bool]) -> Vec<(i32, i32)> {
    let mut places = vec![(0, 0); layers.len()];
    let deepest = layers.iter().max().copied().unwrap_or_default();
    for layer in 0..=deepest {
        let mut here: Vec<(f64, usize)> = (0..layers.len())
            .filter(|node| layers[*node] == layer)
            .map(|node| {
                let before: Vec<f64> = pairs
                    .iter()
                    .zip(back)
                    .filter(|((_, to), back)| *to == node && !**back)
                    .map(|((from, _), _)| f64::from(places[*from].1))
                    .collect();
                let mean = before.iter().sum::<f64>() / (before.len().max(1) as f64);
                (mean, node)
            })
            .collect();
        here.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for ((_, node), place) in here.into_iter().zip(0..) {
            places[node] = (layer, place);
        }
    }
    places
}

fn corner((layer, place): (i32, i32)) -> (i32, i32) {
    (MARGIN + layer * (WIDTH + GAP_X), MARGIN + place * (HEIGHT + GAP_Y))
}

fn draw_edge((from, to, back): (usize, usize, bool), places: &[(i32, i32)], low: i32) -> Markup {
    let ((x1, y1), (x2, y2)) = (corner(places[from]), corner(places[to]));
    let mut path = String::new();
    if back {
        let floor = corner((0, low)).1 + HEIGHT + 16;
        let (a, b) = (x1 + WIDTH / 2, x2 + WIDTH / 2);
        let _ =
            write!(path, "M{a} {} C{a} {floor} {b} {floor} {b} {}", y1 + HEIGHT, y2 + HEIGHT + 2);
    } else {
        let (a, b) = (x1 + WIDTH, x2 - 2);
        let (y1, y2) = (y1 + HEIGHT / 2, y2 + HEIGHT / 2);
        let bend = (b - a) / 2;
        let _ = write!(path, "M{a} {y1} C{} {y1} {} {y2} {b} {y2}", a + bend, b - bend);
    }
    html! { path.edge d=(path) marker-end="url(#arrow)" {} }
}

fn draw_node(node: &Node<'_>, place: (i32, i32), mark: &Mark) -> Markup {
    let (x, y) = corner(place);
    let (sign, family) = if mark.status.is_empty() { ("", "none") } else { look(&mark.status) };
    let inside = html! {
        g class={ "node " (family) } {
            title { (node.id) @if !mark.status.is_empty() { ": " (mark.status) } }
            rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="4" {}
            text.name x=(x + 10) y=(y + 19) { (cut(node.name, 20)) }
            text.kind x=(x + 10) y=(y + 34) { (cut(node.kind.rsplit('.').next().unwrap_or_default(), 24)) }
            text.sign x=(x + WIDTH - 10) y=(y + 19) text-anchor="end" { (sign) }
        }
    };
    match &mark.link {
        Some(link) => html! { a href=(link) { (inside) } },
        None => inside,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(definition: &Value) -> String {
        graph(definition, |_| Mark::default())
            .map(maud::PreEscaped::into_string)
            .unwrap_or_default()
    }

    fn places(ids: &[&str], edges: &[(&str, &str)]) -> Vec<(i32, i32)> {
        let nodes: Vec<Node<'_>> = ids.iter().map(|id| Node { id, name: id, kind: "" }).collect();
        let edges: Vec<Value> =
            edges.iter().map(|(a, b)| json!({ "sourceNodeId": a, "targetNodeId": b })).collect();
        arrange(&nodes, &edges).places
    }

    #[test]
    fn a_node_stands_behind_all_that_it_needs() {
        let diamond = places(
            &["a", "b", "c", "d"],
            &[("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("a", "d")],
        );
        assert_eq!(diamond, [(0, 0), (1, 0), (2, 0), (3, 0)]);
        let fan = places(&["a", "b", "c"], &[("a", "c"), ("a", "b")]);
        assert_eq!(fan, [(0, 0), (1, 0), (1, 1)]);
    }

    #[test]
    fn loops_are_drawn_and_do_not_run_for_ever() {
        let definition = json!({
            "nodes": [{ "id": "a" }, { "id": "b" }],
            "edges": [
                { "sourceNodeId": "a", "targetNodeId": "b" },
                { "sourceNodeId": "b", "targetNodeId": "a" },
                { "sourceNodeId": "b", "targetNodeId": "b" },
                { "sourceNodeId": "b", "targetNodeId": "nowhere" },
            ],
        });
        assert_eq!(drawn(&definition).matches("class=\"edge\"").count(), 3);
    }

    /// K-07
    #[test]
    fn names_are_text() {
        let definition = json!({ "nodes": [{ "id": "<i>", "name": "</svg><script>1</script>", "typeId": "\"x" }] });
        let drawn = drawn(&definition);
        assert!(!drawn.contains("<script") && !drawn.contains("<i>"), "{drawn}");
        assert_eq!(graph(&json!({}), |_| Mark::default()).map(|_| ()), None);
    }
}
