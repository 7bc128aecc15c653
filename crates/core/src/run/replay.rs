//! Goes through a source's history again: pure nodes are computed anew, recorded facts are taken over as they stand.
//!
//! The source's log is the script. Where the run's own next event is the script's, it is emitted at
//! the script's time; where the script holds a fact from outside (an outcome, an answer, a child's
//! end), the fact is copied. Anything else is a divergence, which is recorded, and the replay goes on.
//! Beyond the script nobody is asked and nothing is performed: time jumps, and a node that would
//! need the outside fails.

use std::sync::Arc;

use callboard_protocol::{
    ChainPhase, DivergenceKind, Event, EventId, Failure, ForkMode, NodeFailed, NodeId,
    ReplayDiverged, RunId, RunResumed, Timestamp,
};

use super::{Entry, Phase, Run, Stage};
use crate::birth::Fork;
use crate::graph::NodeIndex;
use crate::work::Work;

/// What a replay reads from, and how far it has come.
#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    entries: Arc<[Entry]>,
    next: usize,
    /// The place in the source that was reported last.
    reported: Option<u64>,
    /// Whether the source came to its own end: beyond that, every event is one too many.
    is_whole: bool,
    /// Whether the replay has recorded that a model's refusal ends it.
    is_refuted: bool,
}

impl Script {
    /// What the source recorded from the fork on, without what only stopped it: a replay is neither
    /// cancelled nor left in a pause.
    fn of(source: &[Entry]) -> Self {
        let stops = |entry: &Entry| {
            matches!(entry.event, Event::CancelRequested(_) | Event::RunCancelled(_))
        };
        let mut end = source.iter().position(stops).unwrap_or(source.len());
        let is_whole =
            source[..end].last().is_some_and(|last| Event::is_terminal(last.event.kind()));
        let resumed = |entry: &Entry| matches!(entry.event, Event::RunResumed(_));
        let last_resumed = source[..end].iter().rposition(resumed).map_or(0, |place| place + 1);
        let pauses =
            |entry: &Entry| matches!(entry.event, Event::RunPaused(_) | Event::PauseRequested(_));
        // A run that came to its end in the middle of a drain was not left in it.
        if !is_whole && let Some(pause) = source[last_resumed..end].iter().position(pauses) {
            end = last_resumed + pause;
        }
        Self { entries: source[..end].into(), next: 0, reported: None, is_whole, is_refuted: false }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn current(&self) -> Option<&Entry> {
        self.entries.get(self.next)
    }

    /// The place in the source that was reported last.
    pub(super) fn reported(&self) -> Option<u64> {
        self.reported
    }

    /// Moves on with an event of the replay's own log, so that a new holder finds the same place.
    fn follow(&mut self, event: &Event, fork: &Fork) {
        if let Event::ReplayDiverged(report) = event
            && report.source_run_id == fork.source
        {
            self.reported = Some(report.at_sequence);
            if report.divergence_kind == DivergenceKind::Missing {
                self.next += 1;
            }
            return;
        }
        if let Event::ReplayDivergedAtRefusal(report) = event
            && report.source_run_id == fork.source
        {
            self.is_refuted = true;
            return;
        }
        let rest = self.entries.get(self.next..).unwrap_or_default();
        if let Some(found) = rest.iter().position(|entry| is_same_place(&entry.event, event)) {
            self.next += found + 1;
        }
    }
}

fn is_same_place(a: &Event, b: &Event) -> bool {
    a.kind() == b.kind() && a.node_id() == b.node_id()
}

impl Run {
    /// Gives a replay its source's log, from the fork on.
    #[must_use]
    pub fn with_source(mut self, source: &[Entry]) -> Self {
        self.script = Script::of(source);
        self
    }

    pub(super) fn follow_script(&mut self, entry: &Entry) {
        if let Some(fork) = &self.birth.fork
            && fork.mode == ForkMode::Replay
            && entry.sequence >= fork.from
        {
            self.script.follow(&entry.event, fork);
        }
    }

    /// The run id inside the payload or key of the next event.
    pub(super) fn told_id(&self) -> &RunId {
        self.birth.told_id(self.script.current().map_or(u64::MAX, |original| original.sequence))
    }

    /// Whether the run's next event comes from its source's history.
    pub(super) fn is_rehearsing(&self) -> bool {
        self.birth.is_replay() && self.stops.cancel.is_none()
    }

    /// The next event of a replay, with its time. One answer for every state, until the run has ended.
    pub(super) fn rehearsed(&self, work: &mut Work) -> Option<(Event, Timestamp)> {
        let fork = self.birth.fork.as_ref()?;
        if matches!(self.lifecycle.phase, Phase::Ended { .. }) {
            return None;
        }
        if self.script.is_refuted {
            return self
                .refuted(self.lifecycle.updated_at, work)
                .map(|event| (event, self.lifecycle.updated_at));
        }
        let Some(entry) = self.script.current() else { return self.beyond_script(fork, work) };
        let at = entry.at.max(self.lifecycle.updated_at);
        if let Some(end) = self.diverges_at_refusal(fork, entry) {
            return Some((end, at));
        }
        if self.diverges_at_prompt(fork, entry) {
            return Some((diverged(fork, entry, Some(&entry.event)), at));
        }
        Some((
            match self.next(at, work) {
                // With what the source's expressions came to, which may be other than today.
                Some(own) if own.public() == entry.event.public() => entry.event.clone(),
                _ if self.takes(&entry.event) => entry.event.clone(),
                Some(own) if self.script.reported == Some(entry.sequence) => own,
                own => diverged(fork, entry, own.as_ref()),
            },
            at,
        ))
    }

    fn beyond_script(&self, fork: &Fork, work: &mut Work) -> Option<(Event, Timestamp)> {
        let mut at = self.lifecycle.updated_at;
        let mut own = self.next(at, work);
        if own.is_none()
            && let Some(later) = self.own_timers().min()
        {
            at = at.max(later);
            own = self.next(at, work);
        }
        match own {
            Some(_) if self.script.is_whole && self.script.reported != Some(fork.until) => {
                let report = ReplayDiverged {
                    source_run_id: fork.source.clone(),
                    at_sequence: fork.until,
                    original_event_id: None,
                    divergence_kind: DivergenceKind::Extra,
                    divergence_point: None,
                };
                Some((Event::ReplayDiverged(report), at))
            }
            Some(own) => Some((own, at)),
            None => self.without_source().map(|event| (event, at)),
        }
    }

    /// How a run goes on that waits for something which its source never recorded.
    fn without_source(&self) -> Option<Event> {
        match self.lifecycle.phase {
            Phase::Pending => Some(self.started()),
            Phase::Paused { .. } => Some(Event::RunResumed(RunResumed { reason: None })),
            Phase::Running => self.flow.active.first().map(|index| {
                let node_id = self.node_id(*index);
                let message = format!("the source has no outcome of node {node_id} to replay");
                self.loose_end(*index).unwrap_or(Event::NodeFailed(NodeFailed {
                    error: Failure::new("replay_source_missing", message),
                    attempts: self.nodes[*index].attempt + 1,
                    node_id,
                }))
            }),
            Phase::Ended { .. } => None,
        }
    }

    /// Whether an event of the source is a fact from outside that can be folded here.
    #[expect(clippy::too_many_lines, reason = "one line for each event")]
    fn takes(&self, event: &Event) -> bool {
        match event {
            Event::RunStarted(_) => self.lifecycle.phase == Phase::Pending,
            Event::RosterRunInitiated(_) => !self.announced.attribution,
            Event::TriggerDeliveryAttempted(_) => !self.announced.delivery,
            // That another call was wanted is a fact; what was used is counted anew.
            Event::BudgetExhausted(_) => self.is_reserved() || !self.flow.active.is_empty(),
            Event::RunPaused(_) | Event::PauseRequested(_) => {
                self.lifecycle.phase == Phase::Running
            }
            Event::RunResumed(_) => {
                matches!(self.lifecycle.phase, Phase::Running | Phase::Paused { .. })
            }
            Event::NodeCompleted(payload) => self.is_performing(&payload.node_id),
            Event::NodeFailed(payload) => self.is_performing(&payload.node_id),
            Event::NodeRetried(payload) => self.is_performing(&payload.node_id),
            Event::OutputChunk(payload) => self.is_performing(&payload.node_id),
            Event::AgentInvocationStarted(_)
            | Event::AgentInvocationCompleted(_)
            | Event::AgentPromptResolved(_)
            | Event::PromptComposed(_)
            | Event::ProviderUsage(_)
            | Event::AgentReasoningDelta(_)
            | Event::AgentReasoned(_)
            | Event::AgentToolCalled(_)
            | Event::AgentToolReturned(_)
            | Event::EgressDecided(_)
            | Event::AuthorizationDecided(_)
            | Event::AgentDecided(_)
            | Event::AgentSession(_)
            | Event::EnvelopeTruncated(_)
            | Event::EnvelopeRetryAttempted(_)
            | Event::EnvelopeRetryExhausted(_)
            | Event::EnvelopeRefusal(_)
            | Event::EnvelopeRecoveryApplied(_)
            | Event::EnvelopeNlToFormatEngaged(_)
            | Event::ModelCapabilitySubstituted(_)
            | Event::ModelCapabilityInsufficient(_)
            | Event::ModelFallback(_)
            | Event::LogAppended(_) => self.is_performing_at(event.node_id()),
            Event::CapBreached(payload) if !payload.kind.ends_the_run() => {
                self.is_performing_at(payload.node_id.as_ref())
            }
            // What an agent decided is a fact; what a plan says is computed anew.
            Event::RunOrchestratorDecided(payload) => {
                self.is_performing_at(payload.node_id.as_ref())
            }
            Event::WorkflowChained(payload) => {
                payload.phase == ChainPhase::DispatchFailed
                    && self.is_performing_at(payload.node_id.as_ref())
            }
            Event::InterruptRequested(payload) => self.is_performing_at(payload.node_id.as_ref()),
            Event::Vote(payload) => self.is_asking(&payload.node_id),
            Event::Ask(payload) => self.is_asking(&payload.node_id),
            Event::ApprovalReceived(payload) => self.is_asking(&payload.node_id),
            Event::ClarificationResolved(payload) => self.is_asking(&payload.node_id),
            Event::InterruptResolved(payload) => self.is_asking(&payload.node_id),
            Event::NodeDispatched(payload) => self.is_performing_at(payload.node_id.as_ref()),
            Event::MemoryWritten(_)
            | Event::MemoryCompacted(_)
            | Event::MemoryConsolidated(_)
            | Event::WorkspaceUpdated(_) => self.is_performing_at(event.node_id()),
            Event::ChildChanged(payload) => self.knows_child(&payload.child_run_id),
            Event::ConversationExchanged(payload) => {
                payload.node_id.as_ref().is_some_and(|node| self.is_asking(node))
            }
            Event::ConversationClosed(payload) => {
                payload.node_id.as_ref().is_some_and(|node| self.is_asking(node))
            }
            // What a node writes names the node; anything else came from outside.
            Event::ChannelWritten(payload) => payload.node_id.is_none(),
            Event::VariableChanged(payload) => payload.node_id.is_none(),
            Event::VersionPinned(_)
            | Event::ReplayDiverged(_)
            | Event::ReplayDivergedAtRefusal(_)
            | Event::Other(_) => true,
            Event::AgentHandoff(payload) => self.is_performing_at(payload.node_id.as_ref()),
            Event::RunCompleted(_)
            | Event::RunDeadLettered(_)
            | Event::RunFailed(_)
            | Event::RunCancelled(_)
            | Event::CancelRequested(_)
            | Event::NodeStarted(_)
            | Event::NodeSkipped(_)
            | Event::NodeCancelled(_)
            | Event::NodeSuspended(_)
            | Event::NodeResumed(_)
            | Event::LoopbackLimit(_)
            | Event::CapBreached(_)
            | Event::Unreadable(_)
            | Event::ArtifactCreated(_)
            | Event::BudgetReserved(_)
            | Event::BudgetConsumed(_)
            | Event::BudgetThresholdCrossed(_)
            | Event::ConfidenceEscalated(_)
            | Event::ConversationOpened(_)
            | Event::ApprovalRequested(_)
            | Event::ClarificationRequested(_) => false,
        }
    }

    /// Whether a node is at something whose outcome comes from outside.
    fn is_performing(&self, node: &NodeId) -> bool {
        self.plan.index(node).is_some_and(|index: NodeIndex| {
            self.nodes[index].stage == Stage::Active
                && (self.kind(index).is_performed() || self.kind(index).waits_for_children())
        })
    }

    fn is_performing_at(&self, node: Option<&NodeId>) -> bool {
        node.is_some_and(|node| self.is_performing(node))
    }

    fn is_asking(&self, node: &NodeId) -> bool {
        let open = self.plan.index(node).and_then(|index| self.interrupts.get(&index));
        open.is_some_and(|open| open.decision.is_none() && open.question.kind.is_asked())
    }
}

fn diverged(fork: &Fork, entry: &Entry, own: Option<&Event>) -> Event {
    let kind = match own {
        None => DivergenceKind::Missing,
        Some(own) if is_same_place(own, &entry.event) => DivergenceKind::Output,
        Some(_) => DivergenceKind::TypeMismatch,
    };
    Event::ReplayDiverged(ReplayDiverged {
        source_run_id: fork.source.clone(),
        at_sequence: entry.sequence,
        original_event_id: Some(EventId::of(&fork.source, entry.sequence)),
        divergence_kind: kind,
        divergence_point: Some(entry.event.kind().to_owned()),
    })
}
