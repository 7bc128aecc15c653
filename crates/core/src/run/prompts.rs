//! Where the prompts of a replay are no longer those that its source recorded.

use std::collections::BTreeMap;

use callboard_protocol::{Event, NodeId, PromptComposed, PromptKind, PromptLayer};

use super::{AgentFact, Entry, Run};
use crate::birth::Fork;

/// Compares the prompts in a log with those that its nodes would use today.
#[derive(Debug, Default)]
pub struct PromptComparison {
    nodes: BTreeMap<NodeId, Side>,
}

/// The prompts that one visit of a node would use today, and how many of them were matched.
#[derive(Debug)]
struct Side {
    /// None where nobody can say.
    today: Option<Vec<AgentFact>>,
    next: usize,
}

impl PromptComparison {
    /// The node whose prompts of today must be known before this event can be judged.
    pub fn wants<'a>(&self, event: &'a Event) -> Option<&'a NodeId> {
        let node = match event {
            Event::AgentPromptResolved(told) => &told.node_id,
            Event::PromptComposed(told) => &told.node_id,
            _ => return None,
        };
        (!self.nodes.contains_key(node)).then_some(node)
    }

    /// Takes the prompts that a node would use today; none where they are unknown.
    pub fn learn(&mut self, node: NodeId, today: Option<Vec<AgentFact>>) {
        self.nodes.insert(node, Side { today, next: 0 });
    }

    /// Whether an event says what no longer would be said. Asked for every event of a log, in order.
    pub fn differs(&mut self, event: &Event) -> bool {
        match event {
            // Another visit asks with inputs of its own.
            Event::NodeStarted(started) => {
                self.nodes.remove(&started.node_id);
                false
            }
            // An invocation records its prompts from the first on.
            Event::AgentInvocationStarted(_) => {
                let side = event.node_id().and_then(|node| self.nodes.get_mut(node));
                side.into_iter().for_each(|side| side.next = 0);
                false
            }
            Event::AgentPromptResolved(told) => {
                let side = self.nodes.get_mut(&told.node_id);
                side.is_some_and(|side| {
                    side.resolves_otherwise(told.kind, &told.chain, told.resolved.as_deref())
                })
            }
            Event::PromptComposed(told) => {
                let side = self.nodes.get_mut(&told.node_id);
                side.is_some_and(|side| side.composes_otherwise(told))
            }
            _ => false,
        }
    }
}

impl Side {
    /// Which layer gave the prompt must not change; what layers beside it would have given may.
    fn resolves_otherwise(
        &mut self,
        kind: PromptKind,
        chain: &[PromptLayer],
        resolved: Option<&str>,
    ) -> bool {
        let Some(facts) = &self.today else { return false };
        let rest = facts.get(self.next..).unwrap_or_default();
        let is_resolution = |fact: &AgentFact| matches!(fact, AgentFact::PromptResolved { .. });
        let place = rest.iter().position(is_resolution);
        match place.map(|place| (place, &rest[place])) {
            Some((
                place,
                AgentFact::PromptResolved { kind: today, chain: layers, resolved: now },
            )) if *today == kind => {
                self.next += place + 1;
                now.as_deref() != resolved || applied_layer(layers) != applied_layer(chain)
            }
            _ => self.give_up(),
        }
    }

    fn composes_otherwise(&mut self, told: &PromptComposed) -> bool {
        let Some(facts) = &self.today else { return false };
        if self.next > facts.len() {
            return false;
        }
        let today = match facts.get(self.next) {
            Some(AgentFact::PromptComposed(today)) => today,
            Some(_) => return true,
            // The node would have failed here.
            None => return self.give_up(),
        };
        let differs = (&today.hash, &today.refs, &today.variable_hashes)
            != (&told.hash, &told.refs, &told.variable_hashes);
        self.next += 1;
        differs
    }

    /// Nothing after this can be matched; it is recorded once.
    fn give_up(&mut self) -> bool {
        let end = self.today.as_ref().map_or(0, Vec::len);
        let is_first = self.next <= end;
        self.next = end + 1;
        is_first
    }
}

fn applied_layer(chain: &[PromptLayer]) -> Option<&str> {
    chain.iter().find(|layer| layer.applied).map(|layer| layer.layer.as_str())
}

impl Run {
    /// Whether the replay has reached a prompt that would differ today, and has not recorded that yet.
    pub(super) fn diverges_at_prompt(&self, fork: &Fork, original: &Entry) -> bool {
        fork.prompts.contains(&original.sequence)
            && self.script.reported() != Some(original.sequence)
    }
}
