//! Goes on with a run that has ended: which of its history a retry keeps, and which nodes it does again.
//!
//! A retry is a branch that leaves its source right before what ended it. What had completed by then stays completed,
//! in parallel branches too; the nodes that failed are put back to before they were reached, with all that depends on
//! them, and the run goes on live. A node that failed because an outward call got no answer goes on within its visit
//! instead, so that the calls which were answered are neither made nor paid for again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use callboard_protocol::{Evaluated, Event, NodeId, Timestamp};

use super::outcomes::OutcomeCounts;
use super::{Entry, LoopState, NodeState, Phase, Run, Stage, Turn, Verdict, millis};
use crate::birth::{RetriedNode, RetriedVisit, Retry};
use crate::graph::NodeIndex;
use crate::work::Work;

/// The failures of an outward call that got no answer. Any other comes from what a node was answered, and asking for
/// the recorded answer again would come to the same.
const UNANSWERED: [&str; 7] = [
    "agent_not_installed",
    "credential_forbidden",
    "credential_required",
    "internal_error",
    "no_model_available",
    "rate_limited",
    "service_unavailable",
];

/// What is asked of a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryTerms {
    /// The node to go on from, besides those that failed.
    pub from: Option<NodeId>,
    pub changed: RetryChange,
}

/// What is different in a retry from the run that it goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryChange {
    Nothing,
    /// What the caller sends.
    Inputs,
    /// The definition, with the agents that perform its nodes.
    Definition,
}

/// Why a run cannot be retried as it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryRefusal {
    #[error("the run has not ended; it goes on by itself, or when it gets its answer")]
    NotEnded,
    #[error("the run has completed; name a node to do again")]
    Completed,
    #[error("the workflow has no node {node}")]
    UnknownNode { node: NodeId },
    #[error("the run never came to node {node}")]
    NotReached { node: NodeId },
    #[error("the newest definition has no node {node}, which failed; name a node to go on from")]
    NodeGone { node: NodeId },
    /// No node can be done again so that it comes out differently.
    #[error(
        "the run failed with {code} and not at a node: it would fail again; name a node to go on from, or mend the \
         definition and retry with the newest"
    )]
    NothingFailed { code: String },
}

/// How much of a log a retry keeps: all before the events that ended the run.
pub fn retry_place(log: &[Entry], from: Option<&NodeId>) -> Result<usize, RetryRefusal> {
    let last = log.last().filter(|last| Event::is_terminal(last.event.kind()));
    let last = last.ok_or(RetryRefusal::NotEnded)?;
    if matches!(last.event, Event::RunCompleted(_)) && from.is_none() {
        return Err(RetryRefusal::Completed);
    }
    let ends = |entry: &Entry| match &entry.event {
        Event::CancelRequested(_) => true,
        Event::CapBreached(breach) => breach.kind.ends_the_run(),
        _ => false,
    };
    let leads_there = |entry: &Entry| {
        matches!(entry.event, Event::RunDeadLettered(_) | Event::BudgetExhausted(_))
    };
    let mut place = log.iter().rposition(ends).unwrap_or(log.len() - 1);
    while place > 0 && leads_there(&log[place - 1]) {
        place -= 1;
    }
    Ok(place)
}

impl Run {
    /// Gives a branch that has no history yet the part of its source's log that it keeps, and finds what it does
    /// again. `ended` is what the log has behind that.
    pub fn retry(
        mut self,
        history: &[Entry],
        ended: &[Entry],
        terms: &RetryTerms,
    ) -> Result<Self, RetryRefusal> {
        let evaluated = match terms.changed {
            RetryChange::Definition => Some(self.fold_anew(history)),
            RetryChange::Nothing | RetryChange::Inputs => {
                history.iter().for_each(|entry| self.apply(entry));
                None
            }
        };
        let nodes = self.retried_nodes(ended, terms)?;
        let birth = Arc::make_mut(&mut self.birth);
        if let Some(fork) = &mut birth.fork {
            fork.retry = Some(Retry { nodes });
            fork.evaluated = evaluated.unwrap_or_else(|| std::mem::take(&mut fork.evaluated));
        }
        Ok(self)
    }

    /// Folds a history that was recorded under another definition. Conditions are known by their place in it, so they
    /// are evaluated once more; their values are kept for the next fold of the history.
    fn fold_anew(&mut self, history: &[Entry]) -> BTreeMap<u64, Evaluated> {
        if let Some(fork) = &mut Arc::make_mut(&mut self.birth).fork {
            fork.evaluated.clear();
        }
        let mut evaluated = BTreeMap::new();
        for entry in history {
            let mut entry = entry.clone();
            let Event::NodeCompleted(payload) = &mut entry.event else {
                self.apply(&entry);
                continue;
            };
            payload.evaluated = None;
            self.apply(&entry);
            if let Some(anew) = self.effort.evaluated.take() {
                evaluated.insert(entry.sequence, anew);
            }
        }
        evaluated
    }

    fn retried_nodes(
        &self,
        ended: &[Entry],
        terms: &RetryTerms,
    ) -> Result<Vec<RetriedNode>, RetryRefusal> {
        let mut nodes = Vec::new();
        let mut covered = BTreeSet::new();
        if let Some(node) = &terms.from {
            let unknown = || RetryRefusal::UnknownNode { node: node.clone() };
            let index = self.plan.index(node).ok_or_else(unknown)?;
            if matches!(self.nodes[index].stage, Stage::Waiting | Stage::Skipped) {
                return Err(RetryRefusal::NotReached { node: node.clone() });
            }
            covered = self.plan.downstream(index);
            nodes.push(RetriedNode { node_id: node.clone(), visit: RetriedVisit::New });
        }
        let failed = self.flow.failed.iter().copied();
        let failed = failed.filter(|index| !covered.contains(index) && !self.is_handled(*index));
        for index in failed.collect::<BTreeSet<_>>() {
            let visit = self.retried_visit(index, terms.changed);
            nodes.push(RetriedNode { node_id: self.node_id(index), visit });
        }
        if nodes.is_empty() && self.has_nothing_to_do() {
            return Err(self.nothing_failed(ended));
        }
        Ok(nodes)
    }

    /// A node whose call got no answer goes on after the last one that did, as long as it asks the same.
    fn retried_visit(&self, index: NodeIndex, changed: RetryChange) -> RetriedVisit {
        let state = &self.nodes[index];
        let is_unanswered = match &state.stage {
            Stage::Failed(failure) => UNANSWERED.contains(&failure.code.as_str()),
            _ => false,
        };
        let has_facts = state.facts > 0 || state.recorded.outcomes() != OutcomeCounts::default();
        let goes_on = changed == RetryChange::Nothing
            && is_unanswered
            && has_facts
            && self.kind(index).is_performed();
        if goes_on { RetriedVisit::Same } else { RetriedVisit::New }
    }

    /// Whether the run would end at once, or cannot be folded.
    fn has_nothing_to_do(&self) -> bool {
        let next = self.next(self.lifecycle.updated_at, &mut Work::default());
        self.stops.fault.is_some()
            || next.is_some_and(|next| Event::is_terminal(next.kind()))
            || matches!(self.lifecycle.phase, Phase::Ended { .. })
    }

    fn nothing_failed(&self, ended: &[Entry]) -> RetryRefusal {
        let failed = ended.iter().find_map(|entry| match &entry.event {
            Event::RunFailed(payload) => Some(payload),
            _ => None,
        });
        let gone = failed.and_then(|failed| failed.failed_node_id.as_ref());
        match gone.filter(|node| self.plan.index(node).is_none()) {
            Some(node) => RetryRefusal::NodeGone { node: node.clone() },
            None => {
                let code = failed.map_or("run_failed", |failed| failed.error.code.as_str());
                RetryRefusal::NothingFailed { code: code.to_owned() }
            }
        }
    }

    /// Puts what is done again back to before it was reached. Limits on time and on starts count from here.
    pub(super) fn reopen_for(&mut self, retry: &Retry, at: Timestamp) {
        let until = if let Phase::Paused { since } = self.lifecycle.phase { since } else { at };
        let spent = self.lifecycle.started_at.map_or(0, |started| millis(until.since(started)));
        self.lifecycle.paused_ms = spent;
        self.flow.executions = 0;
        self.stops.drain = None;
        for one in &retry.nodes {
            if let Some(index) = self.plan.index(&one.node_id) {
                self.reopen_node(index, one.visit, at);
            }
        }
    }

    fn reopen_node(&mut self, index: NodeIndex, visit: RetriedVisit, at: Timestamp) {
        let plan = self.plan.clone();
        let members = plan.downstream(index);
        let (old, loops) = (self.nodes[index].clone(), self.flow.loops.clone());
        let followed = self.flow.followed.clone();
        self.reset(&members);
        for (known, state) in loops.into_iter().enumerate() {
            let of_plan = &plan.loops[known];
            if of_plan.header == index {
                // It comes round to the same turn again, with what that turn was brought.
                for edge in &of_plan.back {
                    self.flow.followed[*edge] = followed[*edge];
                }
                let iterations = state.iterations;
                self.flow.loops[known] = LoopState { iterations, ..LoopState::FRESH };
            } else if of_plan.body.contains(&index) && !members.contains(&of_plan.header) {
                self.flow.loops[known] = LoopState { turn: Turn::Open, is_cut: false, ..state };
            }
        }
        self.interrupts.retain(|asking, _| !members.contains(asking));
        self.orchestra.ended_by = self.orchestra.ended_by.filter(|end| !members.contains(end));
        match visit {
            RetriedVisit::Same => {
                let stage = Stage::Retrying { not_before: at };
                self.nodes[index] = NodeState { stage, failures: 0, ended_at: None, ..old };
                self.nodes[index].recorded.reopen();
                self.flow.active.insert(index);
            }
            // Only a write starts it otherwise, and that was made.
            RetriedVisit::New if plan.node(index).is_triggered_only => {
                self.flow.ready.insert(index, Verdict::Start);
            }
            RetriedVisit::New => self.refresh(index),
        }
    }
}
