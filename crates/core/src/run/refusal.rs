//! Where a replay ends because a model refuses that did not before, or no longer refuses.

use callboard_protocol::{
    EnvelopeKind, Event, EventId, Failure, NodeFailed, NodeId, ReplayDivergedAtRefusal, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{Entry, Run, Stage};
use crate::birth::Fork;
use crate::work::Work;

/// What a model answered in one turn, as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTurn {
    pub node: NodeId,
    /// Its event.
    pub at: u64,
    pub kind: EnvelopeKind,
}

/// The turns of models in a log, in order. A refusal is the kind of the turn that precedes its event.
pub fn model_turns(log: &[Entry]) -> Vec<ModelTurn> {
    let mut turns: Vec<ModelTurn> = Vec::new();
    for entry in log {
        let (node, kind) = match &entry.event {
            Event::ProviderUsage(payload) => (payload.node_id.clone(), EnvelopeKind::Valid),
            Event::EnvelopeRefusal(payload) => {
                (Some(payload.node_id.clone()), EnvelopeKind::Refusal)
            }
            _ => continue,
        };
        let Some(node) = node else { continue };
        let turn = ModelTurn { node, at: entry.sequence, kind };
        match turns.last_mut() {
            Some(last) if kind == EnvelopeKind::Refusal && last.node == turn.node => *last = turn,
            _ => turns.push(turn),
        }
    }
    turns
}

/// Where a replay leaves its source: decided when it was forked. An old reader that does not know of it replays on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusalDivergence {
    pub node: NodeId,
    /// The source's event that no longer is true.
    pub at: u64,
    /// What the source's model answered; the other is what it answers now.
    pub original: EnvelopeKind,
}

impl RefusalDivergence {
    /// The first of a node's turns that comes out as the other kind today.
    pub fn between(turns: &[ModelTurn], today: &[EnvelopeKind]) -> Option<Self> {
        let mut both = turns.iter().zip(today);
        let (turn, _) = both.find(|(turn, today)| turn.kind != **today)?;
        Some(Self { node: turn.node.clone(), at: turn.at, original: turn.kind })
    }

    fn told(&self, fork: &Fork) -> Event {
        Event::ReplayDivergedAtRefusal(ReplayDivergedAtRefusal {
            source_run_id: fork.source.clone(),
            at_sequence: self.at,
            original_envelope_kind: self.original,
            replay_envelope_kind: self.original.other(),
            original_event_id: Some(EventId::of(&fork.source, self.at)),
            node_id: Some(self.node.clone()),
        })
    }
}

impl Run {
    /// Records the divergence when the replay reaches its place.
    pub(super) fn diverges_at_refusal(&self, fork: &Fork, original: &Entry) -> Option<Event> {
        let divergence = fork.refusal.as_ref()?;
        (original.sequence >= divergence.at).then(|| divergence.told(fork))
    }

    /// How a replay ends after that: the node fails, and nothing that depends on it runs.
    pub(super) fn refuted(&self, at: Timestamp, work: &mut Work) -> Option<Event> {
        let failed = self.stops.fault.clone().and_then(|error| {
            let node_id = self.birth.fork.as_ref()?.refusal.as_ref()?.node.clone();
            let index = self.plan.index(&node_id)?;
            let state = &self.nodes[index];
            let attempts = state.attempt + 1;
            let failed = Event::NodeFailed(NodeFailed { error, attempts, node_id });
            let is_open = state.stage == Stage::Active;
            is_open.then(|| self.loose_end(index).unwrap_or(failed))
        });
        failed.or_else(|| self.next(at, work))
    }

    pub(super) fn fold_diverged_at_refusal(&mut self, payload: &ReplayDivergedAtRefusal) {
        let (original, replay) = (payload.original_envelope_kind, payload.replay_envelope_kind);
        let message = format!(
            "the model's answer was {} in the source and is {} now",
            original.as_str(),
            replay.as_str()
        );
        self.stops.fault.get_or_insert(Failure::new("replay_diverged_at_refusal", message));
    }
}
