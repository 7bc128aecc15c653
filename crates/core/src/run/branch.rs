//! Leaves a source's history and goes on live.

use callboard_protocol::{Event, ForkMode, RunId, RunResumed, Timestamp};

use super::{Entry, Phase, Run, Stage};
use crate::birth::Retry;

impl Run {
    /// How a branch begins: what was under way in its source starts afresh here.
    pub(super) fn on_branch(&self) -> Vec<Event> {
        let Some(fork) = self.birth.fork.as_ref().filter(|fork| fork.from == self.version) else {
            return Vec::new();
        };
        let mut events = self.opening();
        if matches!(self.lifecycle.phase, Phase::Running | Phase::Paused { .. }) {
            let reason = match &fork.retry {
                None => format!("branched from {} at {}", fork.source, fork.from),
                Some(retry) => retried_from(&fork.source, retry),
            };
            events.push(Event::RunResumed(RunResumed { reason: Some(reason) }));
        }
        events
    }

    /// The time between the source's last event and the branch's first did not pass for the run, and
    /// the source's children are not the branch's.
    pub(super) fn leave_source(&mut self, entry: &Entry) {
        let Some(retry) = self.left_history(entry) else { return };
        let gap = super::millis(entry.at.since(self.lifecycle.updated_at));
        let later = |at: &mut Timestamp| *at = at.plus_millis(gap);
        if self.lifecycle.phase == Phase::Running {
            self.lifecycle.paused_ms += gap;
        }
        for index in &self.flow.active {
            let state = &mut self.nodes[*index];
            state.started_at.iter_mut().for_each(later);
            state.talk.iter_mut().for_each(|talk| later(&mut talk.opened_at));
            if let Stage::Retrying { not_before } = &mut state.stage {
                later(not_before);
            }
            state.child = state.child.filter(|child| self.children[*child].status.is_terminal());
            let workers = state.dispatching.iter_mut().flat_map(|under_way| &mut under_way.workers);
            for worker in workers {
                if worker.child.is_some_and(|child| !self.children[child].status.is_terminal()) {
                    worker.leave();
                }
            }
        }
        for child in &mut self.children {
            child.is_left = !child.status.is_terminal();
        }
        self.interrupts.values_mut().for_each(|open| later(&mut open.requested_at));
        self.flow.due_triggers.iter_mut().flatten().for_each(later);
        if let Some(retry) = retry {
            self.reopen_for(&retry, entry.at);
        }
    }

    /// Whether this run, or one whose history it has, went on live with this event; and what it does again, if that
    /// was a retry.
    fn left_history(&self, entry: &Entry) -> Option<Option<Retry>> {
        let fork = self.birth.fork.as_ref()?;
        let is_rehearsed = fork.mode == ForkMode::Replay && entry.sequence >= fork.from;
        let place = match self.script.current() {
            // A report of a divergence moves what follows it; the source's places count.
            Some(original) if is_rehearsed && original.event.public() == entry.event.public() => {
                original.sequence
            }
            _ if is_rehearsed => return None,
            _ => entry.sequence,
        };
        fork.departure_at(place).map(Option::<&Retry>::cloned)
    }
}

/// What the log says of how a retry goes on.
fn retried_from(source: &RunId, retry: &Retry) -> String {
    let nodes: Vec<&str> = retry.nodes.iter().map(|one| one.node_id.as_str()).collect();
    match nodes.as_slice() {
        [] => format!("retried from {source} where it was stopped"),
        nodes => format!("retried from {source} at {}", nodes.join(", ")),
    }
}
