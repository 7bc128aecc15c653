//! Which event must come next. One answer for every state; none while the run waits for time or for others.

use std::time::Duration;

use callboard_protocol::{
    CapBreached, CapKind, DrainPolicy, Event, Failure, LoopbackLimit, NodeCancelled, NodeFailed,
    NodeId, NodeRetried, NodeSkipped, NodeStarted, Object, RunCompleted, RunFailed, RunPaused,
    Timestamp,
};

use serde_json::json;

use super::command::RetryClass;
use super::{Phase, Run, Stage, Turn, Verdict};
use crate::bounds::weigh_fields;
use crate::graph::{Loop, NodeIndex};
use crate::node::{NEVER_PROVIDED, NodeKind};
use crate::retry::backoff;
use crate::work::Work;

/// Before a failed attempt is tried again for the first time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

impl Run {
    /// The next event that follows from the state alone, at time `at`.
    pub(super) fn next(&self, at: Timestamp, work: &mut Work) -> Option<Event> {
        if self.lifecycle.phase != Phase::Running {
            return None;
        }
        let opening = self.next_attribution().or_else(|| self.next_reserved());
        if let Some(opening) = opening.or_else(|| self.next_delivery()) {
            return Some(opening);
        }
        if let Some(told) = (!self.is_ending()).then(|| self.next_of_budget()).flatten() {
            return Some(told);
        }
        if let Some(owed) = self.next_artifact().or_else(|| self.next_handoff()) {
            return Some(owed);
        }
        if self.is_ending() {
            return self.next_of_ending(at);
        }
        if let Some(breach) = self.overtime(at) {
            return Some(breach);
        }
        if let Some(event) = self.flow.active.iter().find_map(|index| self.step(*index, at, work)) {
            return Some(event);
        }
        if let Some(drain) = &self.stops.drain {
            let paused = RunPaused {
                reason: drain.reason.clone(),
                drain_policy: DrainPolicy::DrainCurrentNode,
            };
            return (!self.is_busy()).then_some(Event::RunPaused(paused));
        }
        self.next_start(at).or_else(|| self.next_turn()).or_else(|| self.next_end(at))
    }

    /// A run that was cancelled, broke a limit or cannot be folded stops its nodes, then itself.
    fn next_of_ending(&self, at: Timestamp) -> Option<Event> {
        let (reason, ending) = if let Some(cancel) = &self.stops.cancel {
            ("the run was cancelled", Event::RunCancelled(self.cancellation(cancel, at)))
        } else if let Some(breach) = &self.stops.breach {
            let failed_node_id = breach.node_id.clone();
            let error = breach_failure(breach);
            (
                "the run broke a limit",
                Event::RunFailed(RunFailed {
                    error,
                    failed_node_id,
                    duration_ms: self.lifecycle.duration_ms(at),
                }),
            )
        } else if let Some(supervisor) =
            self.orchestra.ended_by.filter(|_| self.stops.fault.is_none())
        {
            let outputs = self.outputs(Some(supervisor));
            ("the supervisor ended the run", self.completion(outputs, at))
        } else {
            let error = self.stops.fault.clone()?;
            (
                "the run failed",
                Event::RunFailed(RunFailed {
                    error,
                    failed_node_id: None,
                    duration_ms: self.lifecycle.duration_ms(at),
                }),
            )
        };
        // A child that goes with its parent goes first.
        match self.flow.active.iter().find(|index| !self.holds_child(**index)) {
            Some(index) => Some(self.loose_end(*index).unwrap_or_else(|| {
                Event::NodeCancelled(NodeCancelled {
                    node_id: self.node_id(*index),
                    reason: Some(reason.into()),
                })
            })),
            None if self.holds_ordered_child() => None,
            None => self.flow.active.is_empty().then_some(ending),
        }
    }

    fn overtime(&self, at: Timestamp) -> Option<Event> {
        let limit = self.birth.limits.duration_ms;
        let elapsed = self.lifecycle.duration_ms(at);
        (elapsed >= limit).then(|| {
            // The protocol wants what was observed to be beyond the limit, and a timer may fire on the dot.
            let observed = elapsed.max(limit + 1);
            Event::CapBreached(CapBreached {
                kind: CapKind::RunDuration,
                limit: limit.into(),
                observed: observed.into(),
                node_id: None,
                details: None,
            })
        })
    }

    /// A node that is due to start, start again, or be passed over.
    fn next_start(&self, at: Timestamp) -> Option<Event> {
        let restarts = self.flow.active.iter().find(|index| match self.nodes[**index].stage {
            Stage::Interrupted => true,
            Stage::Retrying { not_before } => not_before <= at,
            Stage::Waiting
            | Stage::Suspended
            | Stage::Active
            | Stage::Completed
            | Stage::Failed(_)
            | Stage::Skipped
            | Stage::Cancelled => false,
        });
        if let Some(index) = restarts {
            return Some(self.start(
                *index,
                self.nodes[*index].visit,
                self.nodes[*index].attempt + 1,
            ));
        }
        if let Some((index, verdict)) = self.flow.ready.first_key_value() {
            return Some(self.enter(*index, *verdict));
        }
        let fired = (0..self.flow.due_triggers.len())
            .find(|place| self.fires_at(*place).is_some_and(|due| due <= at))?;
        let fired = self.plan.triggers[fired].node;
        Some(self.start(fired, self.next_visit(fired), 0))
    }

    /// When a channel trigger fires by itself. One whose last firing still runs waits for that to
    /// end, and one in a drain for the resume; neither is anything to wake up for.
    pub(super) fn fires_at(&self, place: usize) -> Option<Timestamp> {
        let due = self.flow.due_triggers[place]?;
        let lineage = &self.plan.triggers[place].lineage;
        let is_held = self.stops.drain.is_some()
            || self.flow.active.iter().any(|node| lineage.contains(node));
        (!is_held).then_some(due)
    }

    fn enter(&self, index: NodeIndex, verdict: Verdict) -> Event {
        match verdict {
            Verdict::Skip => Event::NodeSkipped(NodeSkipped {
                node_id: self.node_id(index),
                reason: Some("its upstreams rule it out".into()),
            }),
            Verdict::Start => self.start(index, self.nodes[index].visit, 0),
        }
    }

    /// Starts a node, unless it must not run at all, or breaks the limit that forbids it.
    fn start(&self, index: NodeIndex, visit: u32, attempt: u32) -> Event {
        let node = &self.plan.node(index).node;
        if node.disabled {
            return Event::NodeSkipped(NodeSkipped {
                node_id: node.id.clone(),
                reason: Some("the node is disabled".into()),
            });
        }
        if self.kind(index) == NodeKind::RequiresMissing {
            return Event::NodeFailed(lacks_capability(&node.id));
        }
        if let Some(breach) = self.breaks_limit(index, attempt) {
            return Event::CapBreached(breach);
        }
        Event::NodeStarted(NodeStarted {
            node_id: node.id.clone(),
            type_id: node.type_id.clone(),
            attempt,
            visit,
            evaluated: None,
        })
    }

    /// The limit that a node's start would break.
    fn breaks_limit(&self, index: NodeIndex, attempt: u32) -> Option<CapBreached> {
        let (node, limits) = (self.plan.node(index), &self.birth.limits);
        let is_turn = node.kind == NodeKind::Supervisor && attempt == 0;
        if is_turn && self.orchestra.turns >= limits.loop_iterations {
            return Some(CapBreached {
                kind: CapKind::LoopIterations,
                limit: limits.loop_iterations.into(),
                observed: (self.orchestra.turns + 1).into(),
                node_id: None,
                details: None,
            });
        }
        let cap = node.dispatch.as_ref().and_then(|plan| plan.iteration_cap);
        let cap = cap.map(|cap| u64::from(cap.get())).filter(|_| attempt == 0);
        if let Some(limit) = cap.filter(|cap| self.orchestra.dispatches >= *cap) {
            // The protocol's closed list of kinds has none of its own for this.
            let reason = [("reason".to_owned(), "dispatch-iterations".into())];
            return Some(CapBreached {
                kind: CapKind::NodeExecutions,
                limit: limit.into(),
                observed: (self.orchestra.dispatches + 1).into(),
                node_id: Some(node.node.id.clone()),
                details: Some(Object::from_iter(reason)),
            });
        }
        (self.flow.executions >= limits.node_executions).then(|| CapBreached {
            kind: CapKind::NodeExecutions,
            limit: limits.node_executions.into(),
            observed: (self.flow.executions + 1).into(),
            node_id: Some(node.node.id.clone()),
            details: None,
        })
    }

    fn next_visit(&self, index: NodeIndex) -> u32 {
        let state = &self.nodes[index];
        if state.stage.is_settled() { state.visit + 1 } else { state.visit }
    }

    /// A loop that goes round again, or has reached its bound.
    fn next_turn(&self) -> Option<Event> {
        let (known, state) = self
            .flow
            .loops
            .iter()
            .enumerate()
            .find(|(_, state)| matches!(state.turn, Turn::Again | Turn::Limit))?;
        let header = self.plan.loops[known].header;
        Some(match state.turn {
            Turn::Limit => Event::LoopbackLimit(LoopbackLimit {
                node_id: self.node_id(header),
                iterations: state.iterations,
                limit: self.plan.loopback_limit(),
            }),
            Turn::Open | Turn::Again | Turn::Closed => {
                self.start(header, self.next_visit(header), 0)
            }
        })
    }

    /// The end of the run, once nothing in it can move any more.
    fn next_end(&self, at: Timestamp) -> Option<Event> {
        let is_waiting =
            !self.flow.active.is_empty() || self.flow.due_triggers.iter().any(Option::is_some);
        if is_waiting {
            return None;
        }
        if let Some(index) = self.nodes.iter().position(|state| state.stage == Stage::Waiting) {
            let reason = Some("nothing triggered it".into());
            return Some(Event::NodeSkipped(NodeSkipped { node_id: self.node_id(index), reason }));
        }
        let duration_ms = self.lifecycle.duration_ms(at);
        let unhandled = self.flow.failed.iter().find(|index| !self.is_handled(**index));
        if let Some(index) = unhandled
            && let Stage::Failed(error) = &self.nodes[*index].stage
        {
            let failed_node_id = Some(self.node_id(*index));
            let failed = RunFailed { error: error.clone(), failed_node_id, duration_ms };
            let given_up = self.next_dead_letter(*index, error);
            return Some(given_up.unwrap_or(Event::RunFailed(failed)));
        }
        if !(0..self.nodes.len()).any(|index| self.is_completed_sink(index)) {
            let error = Failure::new(
                "no_path_completed",
                "every path through the workflow was skipped before its end",
            );
            return Some(Event::RunFailed(RunFailed { error, failed_node_id: None, duration_ms }));
        }
        let outputs = self.outputs(None);
        Some(match weigh_fields(&outputs) {
            Ok(_) => self.completion(outputs, at),
            Err(error) => Event::RunFailed(RunFailed { error, failed_node_id: None, duration_ms }),
        })
    }

    /// The end of a run that has completed, after what it leaves in memory.
    fn completion(&self, outputs: Object, at: Timestamp) -> Event {
        let duration_ms = self.lifecycle.duration_ms(at);
        self.next_summary().unwrap_or(Event::RunCompleted(RunCompleted { outputs, duration_ms }))
    }

    /// What the completed ends of the graph came to, with the supervisor that put an end to it.
    pub(super) fn outputs(&self, ended_by: Option<NodeIndex>) -> Object {
        let is_end = |index: &NodeIndex| self.is_completed_sink(*index) || ended_by == Some(*index);
        let mut ends: Vec<NodeIndex> = (0..self.nodes.len()).filter(is_end).collect();
        ends.sort_by_key(|index| self.node_id(*index));
        ends.into_iter().flat_map(|index| self.nodes[index].outputs.clone()).collect()
    }

    /// A failure is handled when a node directly behind it ran all the same. A node that would only have
    /// led back to it, had the loop's bound not been reached, handles nothing: then it takes one that ran
    /// behind the loop.
    pub(super) fn is_handled(&self, index: NodeIndex) -> bool {
        let ran =
            |node: NodeIndex| matches!(self.nodes[node].stage, Stage::Completed | Stage::Failed(_));
        let handles = |to: NodeIndex| {
            let is_cut = |known: &&usize| {
                self.flow.loops[**known].is_cut && self.plan.loops[**known].body.contains(&to)
            };
            match self.plan.node(index).loops.iter().find(is_cut) {
                None => ran(to),
                Some(known) => {
                    let body = &self.plan.loops[*known].body;
                    self.plan
                        .downstream(to)
                        .into_iter()
                        .any(|node| ran(node) && !body.contains(&node))
                }
            }
        };
        self.plan.node(index).outgoing.iter().any(|edge| handles(self.plan.edge(*edge).to))
    }

    /// A completed node with nothing behind it. Inside a loop that also is where the loop was left: all that is
    /// behind it belongs to another round, which was not taken.
    fn is_completed_sink(&self, index: NodeIndex) -> bool {
        let is_other_round = |to: NodeIndex| {
            let shared = |known: &Loop| known.body.contains(&index) && known.body.contains(&to);
            self.nodes[to].stage == Stage::Skipped && self.plan.loops.iter().any(shared)
        };
        self.nodes[index].stage == Stage::Completed
            && self.plan.node(index).outgoing.iter().all(|e| is_other_round(self.plan.edge(*e).to))
    }

    /// A failed attempt is tried again, later, while its policy allows.
    pub(super) fn failed_or_retried(
        &self,
        index: NodeIndex,
        failure: Failure,
        class: RetryClass,
    ) -> Event {
        let state = &self.nodes[index];
        let node_id = self.node_id(index);
        if class == RetryClass::Retryable && state.failures < self.plan.node(index).max_retries {
            let delay = backoff(FIRST_RETRY, LONGEST_RETRY, state.failures);
            return Event::NodeRetried(NodeRetried {
                node_id,
                attempt: state.attempt + 1,
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                last_error: Some(failure),
                postponed: false,
            });
        }
        Event::NodeFailed(NodeFailed { node_id, error: failure, attempts: state.attempt + 1 })
    }
}

/// The check comes before the node, whatever would start it.
fn lacks_capability(node: &NodeId) -> NodeFailed {
    let mut details = Object::new();
    details.insert("capability".into(), NEVER_PROVIDED.into());
    let message =
        format!("node {node} requires {NEVER_PROVIDED}, which this host does not provide");
    let error = Failure::new("capability_not_provided", message).with_details(details);
    NodeFailed { node_id: node.clone(), error, attempts: 1 }
}

fn budget_failure(of: &str, breach: &CapBreached) -> Failure {
    let CapBreached { limit, observed, .. } = breach;
    let message = format!("the budget of {limit} {of} is used up: {observed}");
    let details = [("limit".to_owned(), json!(limit)), ("observed".to_owned(), json!(observed))];
    Failure::new("budget_exhausted", message).with_details(Object::from_iter(details))
}

fn breach_failure(breach: &CapBreached) -> Failure {
    match breach.kind {
        CapKind::NodeExecutions if breach.details.is_some() => Failure::new(
            "recursion_limit_exceeded",
            format!("the run would carry out more than {} decisions", breach.limit),
        )
        .with_details(breach.details.clone().unwrap_or_default()),
        CapKind::LoopIterations => Failure::new(
            "loop_limit_exceeded",
            format!("the run's supervisor would take more than {} turns", breach.limit),
        )
        .with_details(Object::from_iter([("iteration".to_owned(), json!(breach.observed))])),
        CapKind::NodeExecutions => Failure::new(
            "recursion_limit_exceeded",
            format!("the run would start more than {} nodes", breach.limit),
        ),
        CapKind::RunDuration => {
            Failure::new("run_timeout", format!("the run took longer than {} ms", breach.limit))
        }
        CapKind::BudgetTokens => budget_failure("tokens", breach),
        CapKind::BudgetCost => budget_failure("US dollars", breach),
        CapKind::BudgetToolCalls => budget_failure("calls of tools", breach),
        CapKind::BudgetRetries => budget_failure("retries", breach),
        // Ends a node, which says so itself.
        CapKind::Schema => Failure::new("envelope_invalid", "no answer was valid"),
    }
}
