//! The shape of a workflow: which node follows which, in what order, and where it loops.
//!
//! Only reducible graphs are accepted: every cycle has one node through which it is entered (its
//! header), so that "go round again" means one thing.

use std::collections::{BTreeMap, BTreeSet};

/// A node's place in the definition.
pub(crate) type NodeIndex = usize;

/// One edge, by the places of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) from: NodeIndex,
    pub(crate) to: NodeIndex,
}

/// Nodes in an order in which every forward edge points onwards, and the loops.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Rank of each node: sources first, ties by their place in the definition's id order.
    pub(crate) order: Vec<NodeIndex>,
    /// For each link, whether it closes a loop.
    pub(crate) is_back: Vec<bool>,
    pub(crate) loops: Vec<Loop>,
}

/// All cycles that are entered through one header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) header: NodeIndex,
    /// The header and every node that can reach one of the back links without passing it.
    pub(crate) body: BTreeSet<NodeIndex>,
    /// The links that return to the header.
    pub(crate) back: Vec<usize>,
}

/// Two ways into one cycle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Irreducible {
    pub(crate) link: usize,
}

impl Graph {
    /// Analyses `nodes` nodes, listed in the order that breaks ties.
    pub(crate) fn analyse(nodes: usize, links: &[Link]) -> Result<Self, Irreducible> {
        let outgoing = adjacency(nodes, links);
        let roots = roots(nodes, links, &outgoing);
        let is_back = back_links(nodes, links, &outgoing, &roots);
        let order = topological(nodes, links, &is_back);
        let dominators = dominators(nodes, links, &is_back, &order);
        let mut headers: BTreeMap<NodeIndex, Vec<usize>> = BTreeMap::new();
        for (index, link) in links.iter().enumerate().filter(|(index, _)| is_back[*index]) {
            if !dominators[link.from][link.to] {
                return Err(Irreducible { link: index });
            }
            headers.entry(link.to).or_default().push(index);
        }
        let incoming = sources(nodes, links.iter());
        let of_header = |(header, back): (NodeIndex, Vec<usize>)| {
            let returning = back.iter().map(|index| links[*index].from);
            Loop { header, body: natural_loop(header, returning, &incoming), back }
        };
        let mut loops: Vec<Loop> = headers.into_iter().map(of_header).collect();
        // Inner loops first, so that a loop is settled before the one around it asks.
        loops.sort_by_key(|known| (known.body.len(), known.header));
        Ok(Self { order, is_back, loops })
    }
}

fn adjacency(nodes: usize, links: &[Link]) -> Vec<Vec<usize>> {
    let mut outgoing = vec![Vec::new(); nodes];
    for (index, link) in links.iter().enumerate() {
        outgoing[link.from].push(index);
    }
    outgoing
}

/// For each node, where the links come from that lead to it.
fn sources<'a>(nodes: usize, links: impl Iterator<Item = &'a Link>) -> Vec<BTreeSet<NodeIndex>> {
    let mut sources = vec![BTreeSet::new(); nodes];
    for link in links {
        sources[link.to].insert(link.from);
    }
    sources
}

/// The nodes without a way in; then, for cycles that none of them reaches, the first listed node of each.
fn roots(nodes: usize, links: &[Link], outgoing: &[Vec<usize>]) -> Vec<NodeIndex> {
    let entered: BTreeSet<NodeIndex> = links.iter().map(|link| link.to).collect();
    let mut roots: Vec<NodeIndex> = (0..nodes).filter(|node| !entered.contains(node)).collect();
    let mut reached = BTreeSet::new();
    for root in &roots {
        reach(*root, links, outgoing, &mut reached);
    }
    for node in 0..nodes {
        if !reached.contains(&node) {
            roots.push(node);
            reach(node, links, outgoing, &mut reached);
        }
    }
    roots
}

fn reach(
    from: NodeIndex,
    links: &[Link],
    outgoing: &[Vec<usize>],
    reached: &mut BTreeSet<NodeIndex>,
) {
    let mut stack = vec![from];
    while let Some(node) = stack.pop() {
        if reached.insert(node) {
            stack.extend(outgoing[node].iter().map(|index| links[*index].to));
        }
    }
}

/// Depth first, without recursion: definitions come from outside and may be deep.
fn back_links(
    nodes: usize,
    links: &[Link],
    outgoing: &[Vec<usize>],
    roots: &[NodeIndex],
) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Closed,
    }
    let mut marks = vec![Mark::New; nodes];
    let mut is_back = vec![false; links.len()];
    for root in roots {
        if marks[*root] != Mark::New {
            continue;
        }
        marks[*root] = Mark::Open;
        let mut stack = vec![(*root, 0)];
        while let Some((node, next)) = stack.pop() {
            let Some(index) = outgoing[node].get(next).copied() else {
                marks[node] = Mark::Closed;
                continue;
            };
            stack.push((node, next + 1));
            let target = links[index].to;
            match marks[target] {
                Mark::New => {
                    marks[target] = Mark::Open;
                    stack.push((target, 0));
                }
                Mark::Open => is_back[index] = true,
                Mark::Closed => {}
            }
        }
    }
    is_back
}

fn topological(nodes: usize, links: &[Link], is_back: &[bool]) -> Vec<NodeIndex> {
    let mut missing = vec![0_usize; nodes];
    for link in forward(links, is_back) {
        missing[link.to] += 1;
    }
    let mut free: BTreeSet<NodeIndex> = (0..nodes).filter(|node| missing[*node] == 0).collect();
    let outgoing = adjacency(nodes, links);
    let mut order = Vec::with_capacity(nodes);
    while let Some(node) = free.pop_first() {
        order.push(node);
        for index in &outgoing[node] {
            if is_back[*index] {
                continue;
            }
            let target = links[*index].to;
            missing[target] -= 1;
            if missing[target] == 0 {
                free.insert(target);
            }
        }
    }
    order
}

/// For each node, whether every way to it passes this one or that one; itself included.
fn dominators(
    nodes: usize,
    links: &[Link],
    is_back: &[bool],
    order: &[NodeIndex],
) -> Vec<Vec<bool>> {
    if !is_back.contains(&true) {
        return Vec::new();
    }
    let mut dominators: Vec<Vec<bool>> = vec![Vec::new(); nodes];
    let incoming = sources(nodes, forward(links, is_back));
    // The forward links have no cycle, so one pass in topological order is enough.
    for node in order {
        let mut sources = incoming[*node].iter();
        let first = sources.next().map(|first| dominators[*first].clone());
        let mut common = first.unwrap_or_else(|| vec![false; nodes]);
        for source in sources {
            for (passes, also) in common.iter_mut().zip(&dominators[*source]) {
                *passes &= also;
            }
        }
        common[*node] = true;
        dominators[*node] = common;
    }
    dominators
}

fn natural_loop(
    header: NodeIndex,
    returning: impl Iterator<Item = NodeIndex>,
    incoming: &[BTreeSet<NodeIndex>],
) -> BTreeSet<NodeIndex> {
    let mut body = BTreeSet::from([header]);
    let mut stack: Vec<NodeIndex> = returning.collect();
    while let Some(node) = stack.pop() {
        if body.insert(node) {
            // Inner back links count too: a node that returns to an inner header is inside.
            stack.extend(&incoming[node]);
        }
    }
    body
}

fn forward<'a>(links: &'a [Link], is_back: &'a [bool]) -> impl Iterator<Item = &'a Link> {
    links.iter().zip(is_back).filter(|(_, is_back)| !**is_back).map(|(link, _)| link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analyse(nodes: usize, links: &[(usize, usize)]) -> Result<Graph, Irreducible> {
        let links: Vec<Link> =
            links.iter().map(|(from, to)| Link { from: *from, to: *to }).collect();
        Graph::analyse(nodes, &links)
    }

    #[test]
    fn a_diamond_has_no_loop_and_a_stable_order() -> Result<(), Irreducible> {
        let graph = analyse(4, &[(0, 2), (0, 1), (1, 3), (2, 3)])?;
        assert_eq!(graph.order, [0, 1, 2, 3]);
        assert!(graph.loops.is_empty());
        Ok(())
    }

    #[test]
    fn a_back_arc_makes_a_loop_of_what_lies_between() -> Result<(), Irreducible> {
        let graph = analyse(4, &[(0, 1), (1, 2), (2, 1), (2, 3)])?;
        assert_eq!(graph.is_back, [false, false, true, false]);
        assert_eq!(graph.loops, [Loop { header: 1, body: BTreeSet::from([1, 2]), back: vec![2] }]);
        Ok(())
    }

    #[test]
    fn a_cycle_without_a_source_starts_at_its_first_listed_node() -> Result<(), Irreducible> {
        let graph = analyse(2, &[(1, 0), (0, 1)])?;
        assert_eq!(graph.loops[0].header, 0);
        Ok(())
    }

    #[test]
    fn inner_loops_come_before_outer_ones() -> Result<(), Irreducible> {
        let graph = analyse(4, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 0)])?;
        let headers: Vec<_> = graph.loops.iter().map(|known| known.header).collect();
        assert_eq!(headers, [1, 0]);
        Ok(())
    }

    /// Walking all links for every node and every way back took minutes here.
    #[test]
    fn a_chain_with_thousands_of_ways_back_is_analysed_once() -> Result<(), Irreducible> {
        let chain = (1..2_000).map(|node| (node - 1, node));
        let links: Vec<_> = chain.chain((0..8_000).map(|_| (1_999, 0))).collect();
        let graph = analyse(2_000, &links)?;
        assert_eq!(graph.loops.len(), 1);
        assert_eq!((graph.loops[0].body.len(), graph.loops[0].back.len()), (2_000, 8_000));
        Ok(())
    }

    #[test]
    fn a_cycle_with_two_ways_in_is_refused() {
        assert!(analyse(3, &[(0, 1), (0, 2), (1, 2), (2, 1)]).is_err());
    }
}
