//! How an end travels through the graph: trigger rules, edge conditions, loops and channel triggers.

use std::collections::{BTreeMap, BTreeSet};

use callboard_protocol::{ChannelWritten, Evaluated, Failure, Timestamp, TriggerRule};
use serde_json::Value;

use super::evaluation::Evaluation;
use super::{LoopState, NodeState, Run, Stage, Turn, Verdict};
use crate::expression::holds;
use crate::graph::{Loop, NodeIndex};
use crate::node::NodeKind;
use crate::plan::{Plan, WriteOrigin};

/// How far the run has come through its graph.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// Nodes that are waiting no longer: what becomes of each is settled, but not yet recorded.
    pub(super) ready: BTreeMap<NodeIndex, Verdict>,
    /// Nodes that have started and not ended.
    pub(super) active: BTreeSet<NodeIndex>,
    /// For each edge, whether its source's last end lets it be followed.
    pub(super) followed: Vec<bool>,
    pub(super) loops: Vec<LoopState>,
    /// For each channel trigger, when it fires.
    pub(super) due_triggers: Vec<Option<Timestamp>>,
    /// Failed nodes in the order of their failing.
    pub(super) failed: Vec<NodeIndex>,
    pub(super) executions: u64,
}

impl Flow {
    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            ready: BTreeMap::new(),
            active: BTreeSet::new(),
            followed: vec![false; plan.definition().edges.len()],
            loops: vec![LoopState::FRESH; plan.loops.len()],
            due_triggers: vec![None; plan.triggers.len()],
            failed: Vec::new(),
            executions: 0,
        }
    }

    pub(super) fn start(&mut self, node: NodeIndex) {
        self.executions += 1;
        self.ready.remove(&node);
        self.active.insert(node);
    }

    fn leave(&mut self, node: NodeIndex) {
        self.active.remove(&node);
        self.ready.remove(&node);
    }

    /// The run has ended: nothing is under way or comes next.
    pub(super) fn end(&mut self) {
        self.ready.clear();
        self.active.clear();
    }
}

/// A node's end, its time, and what was recorded of the conditions of its edges.
#[derive(Debug)]
pub(super) struct Settled<'a> {
    pub(super) stage: Stage,
    pub(super) at: Timestamp,
    pub(super) evaluated: Option<&'a Evaluated>,
}

/// What an upstream contributes to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    Undecided,
    Succeeded,
    Failed,
    Skipped,
}

impl Run {
    /// Records a node's end in the state and carries it on to whatever depends on it.
    pub(super) fn settle(&mut self, index: NodeIndex, settled: Settled<'_>) {
        let state = &mut self.nodes[index];
        state.stage = settled.stage;
        state.ended_at = Some(settled.at);
        self.flow.leave(index);
        self.judge_edges(index, settled.evaluated);
        let plan = self.plan.clone();
        for edge in &plan.node(index).outgoing {
            self.refresh(plan.edge(*edge).to);
        }
        for known in &plan.node(index).loops {
            self.review_loop(*known);
        }
    }

    /// Decides, once, which of the node's edges its end lets be followed.
    fn judge_edges(&mut self, index: NodeIndex, recorded: Option<&Evaluated>) {
        let plan = self.plan.clone();
        let node = plan.node(index);
        let mut evaluation = Evaluation::new(recorded, self.effort.step);
        for edge in node.outgoing.iter().chain(&node.returning) {
            let outcome = match &self.nodes[index].stage {
                Stage::Completed => self.is_followed(*edge, &mut evaluation),
                Stage::Waiting
                | Stage::Suspended
                | Stage::Active
                | Stage::Interrupted
                | Stage::Retrying { .. }
                | Stage::Failed(_)
                | Stage::Skipped
                | Stage::Cancelled => Ok(false),
            };
            match outcome {
                Ok(followed) => self.flow.followed[*edge] = followed,
                Err(failure) => {
                    self.flow.followed[*edge] = false;
                    self.stops.fault.get_or_insert(failure);
                }
            }
        }
        self.conclude(evaluation);
    }

    fn is_followed(&self, place: usize, evaluation: &mut Evaluation<'_>) -> Result<bool, Failure> {
        let edge = self.plan.edge(place);
        let source = self.plan.node(edge.from);
        let enters_own_body = |known: &&usize| {
            let known = &self.plan.loops[**known];
            known.header == edge.from && known.body.contains(&edge.to)
        };
        if source.kind == NodeKind::Loop
            && self.loop_length(edge.from) == 0
            && source.loops.iter().any(|known| enters_own_body(&known))
        {
            return Ok(false);
        }
        let Some(condition) = &edge.edge.condition else { return Ok(true) };
        let outputs = &self.nodes[edge.from].outputs;
        let holds = evaluation.value(&place.to_string(), |work| {
            holds(condition, outputs, || self.names(), work).map(Value::Bool)
        })?;
        Ok(holds == Value::Bool(true))
    }

    /// Works out whether a waiting node may start or must be skipped.
    pub(super) fn refresh(&mut self, index: NodeIndex) {
        let node = self.plan.node(index);
        if self.nodes[index].stage != Stage::Waiting || node.is_triggered_only {
            return;
        }
        let upstreams: Vec<Upstream> =
            node.incoming.iter().map(|edge| self.upstream(*edge)).collect();
        match verdict(node.rule, &upstreams) {
            Some(verdict) => self.flow.ready.insert(index, verdict),
            None => self.flow.ready.remove(&index),
        };
    }

    fn upstream(&self, edge: usize) -> Upstream {
        let (from, to) = (self.plan.edge(edge).from, self.plan.edge(edge).to);
        // What follows a loop waits until the loop will not go round again.
        let leaves_open_loop = |known: &usize| {
            !self.plan.loops[*known].body.contains(&to)
                && self.flow.loops[*known].turn != Turn::Closed
        };
        if self.plan.node(from).loops.iter().any(leaves_open_loop) {
            return Upstream::Undecided;
        }
        match &self.nodes[from].stage {
            Stage::Completed if self.flow.followed[edge] => Upstream::Succeeded,
            Stage::Completed | Stage::Skipped | Stage::Cancelled => Upstream::Skipped,
            Stage::Failed(_) => Upstream::Failed,
            Stage::Waiting
            | Stage::Suspended
            | Stage::Active
            | Stage::Interrupted
            | Stage::Retrying { .. } => Upstream::Undecided,
        }
    }

    /// Looks whether a loop has come to rest, and what follows from that.
    fn review_loop(&mut self, known: usize) {
        let plan = self.plan.clone();
        let body = &plan.loops[known].body;
        let has_open_inner = plan.loops.iter().enumerate().any(|(other, inner)| {
            other != known
                && body.contains(&inner.header)
                && inner.header != plan.loops[known].header
                && self.flow.loops[other].turn != Turn::Closed
        });
        if has_open_inner || body.iter().any(|member| !self.nodes[*member].stage.is_settled()) {
            return;
        }
        let leads_back = plan.loops[known].back.iter().any(|edge| self.leads_back(*edge));
        let state = self.flow.loops[known];
        let header = plan.loops[known].header;
        let turn = if !leads_back || state.turn == Turn::Closed {
            Turn::Closed
        } else if plan.node(header).kind == NodeKind::Loop {
            let rounds = usize::try_from(state.iterations).unwrap_or(usize::MAX).saturating_add(1);
            if rounds < self.loop_length(header) { Turn::Again } else { Turn::Closed }
        } else if let Some(supervisor) = &plan.node(header).supervisor {
            // Its bound is the run's, and it is broken rather than reached.
            let goes_on = supervisor.goes_on(self.nodes[header].visit + 1);
            if goes_on { Turn::Again } else { Turn::Closed }
        } else if state.iterations < plan.loopback_limit() {
            Turn::Again
        } else {
            Turn::Limit
        };
        if turn == Turn::Closed {
            self.close_loop(known);
        } else {
            self.flow.loops[known].turn = turn;
        }
    }

    fn leads_back(&self, edge: usize) -> bool {
        let known = self.plan.edge(edge);
        match (&self.nodes[known.from].stage, known.edge.trigger_rule) {
            (Stage::Completed, TriggerRule::AnyFailed) => false,
            (Stage::Completed, _) => self.flow.followed[edge],
            (Stage::Failed(_), TriggerRule::AnyFailed | TriggerRule::AllComplete) => true,
            _ => false,
        }
    }

    /// Lets what follows the loop go on, and the loop around it look again.
    pub(super) fn close_loop(&mut self, known: usize) {
        self.flow.loops[known].turn = Turn::Closed;
        let plan = self.plan.clone();
        let body = &plan.loops[known].body;
        for member in body {
            for edge in &plan.node(*member).outgoing {
                let target = plan.edge(*edge).to;
                if !body.contains(&target) {
                    self.refresh(target);
                }
            }
        }
        for outer in &plan.node(plan.loops[known].header).loops {
            if *outer != known && self.flow.loops[*outer].turn == Turn::Open {
                self.review_loop(*outer);
            }
        }
    }

    /// A settled node starts again: a loop goes round, or a channel trigger fires.
    pub(super) fn reopen(&mut self, index: NodeIndex) {
        let plan = self.plan.clone();
        let again = plan.loops.iter().position(|known| known.header == index);
        match again.filter(|known| self.flow.loops[*known].turn == Turn::Again) {
            Some(known) => {
                let state = self.flow.loops[known];
                let back = &plan.loops[known].back;
                let brought: Vec<bool> =
                    back.iter().map(|edge| self.flow.followed[*edge]).collect();
                self.reset(&plan.loops[known].body);
                for (edge, followed) in back.iter().zip(brought) {
                    self.flow.followed[*edge] = followed;
                }
                self.flow.loops[known] =
                    LoopState { iterations: state.iterations + 1, ..LoopState::FRESH };
            }
            None => self.reset(&plan.downstream(index)),
        }
    }

    /// Puts nodes back to before they were reached, with the loops that lie among them. Their last
    /// outputs stay to be asked for, but nothing arrives over an edge that was followed back then.
    pub(super) fn reset(&mut self, members: &BTreeSet<NodeIndex>) {
        let plan = self.plan.clone();
        for member in members {
            let old = std::mem::take(&mut self.nodes[*member]);
            let was_reached = old.stage != Stage::Waiting;
            self.nodes[*member] = NodeState {
                visit: if was_reached { old.visit + 1 } else { old.visit },
                outputs: old.outputs,
                asked: old.asked,
                invocations: old.invocations,
                ..NodeState::default()
            };
            self.flow.leave(*member);
            for edge in plan.node(*member).outgoing.iter().chain(&plan.node(*member).returning) {
                self.flow.followed[*edge] = false;
            }
        }
        self.flow.failed.retain(|node| !members.contains(node));
        for (known, state) in self.flow.loops.iter_mut().enumerate() {
            let Loop { header, body, .. } = &plan.loops[known];
            if members.contains(header) {
                *state = LoopState::FRESH;
            } else if state.turn != Turn::Closed && !body.is_disjoint(members) {
                // A trigger re-opened a part of its body: it comes to rest once more before it turns.
                state.turn = Turn::Open;
            }
        }
    }

    /// How many rounds a `core.loop` node asks for.
    pub(super) fn loop_length(&self, index: NodeIndex) -> usize {
        let config = &self.plan.node(index).node.config;
        let given = |key: &str| self.nodes[index].inputs.get(key).or_else(|| config.get(key));
        match (given("items"), given("count")) {
            (Some(Value::Array(items)), _) => items.len(),
            (_, Some(count)) => {
                count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// A write to a channel may start nodes, unless they wrote it themselves.
    pub(super) fn fire_triggers(&mut self, write: &ChannelWritten, at: Timestamp) {
        let writer = write.node_id.as_ref().and_then(|node| self.plan.index(node));
        for (place, trigger) in self.plan.triggers.iter().enumerate() {
            let listens = match trigger.origin {
                WriteOrigin::Any => true,
                WriteOrigin::Child => {
                    write.source_run_id.as_ref().is_some_and(|source| self.has_started(source))
                }
                WriteOrigin::Own => writer.is_some(),
            };
            let is_own = writer.is_some_and(|writer| trigger.lineage.contains(&writer));
            if trigger.channel == write.channel && listens && !is_own {
                self.flow.due_triggers[place] = Some(at.plus_millis(trigger.debounce_ms));
            }
        }
    }

    pub(super) fn clear_triggers(&mut self, node: NodeIndex) {
        for (place, trigger) in self.plan.triggers.iter().enumerate() {
            if trigger.node == node {
                self.flow.due_triggers[place] = None;
            }
        }
    }
}

/// The protocol's five rules, each over the ends of all upstreams.
fn verdict(rule: TriggerRule, upstreams: &[Upstream]) -> Option<Verdict> {
    if upstreams.is_empty() {
        return Some(Verdict::Start);
    }
    let any = |wanted: Upstream| upstreams.contains(&wanted);
    let all_decided = !any(Upstream::Undecided);
    let start = |ready: bool| if ready { Verdict::Start } else { Verdict::Skip };
    match rule {
        TriggerRule::AllSuccess => {
            all_decided.then(|| start(!any(Upstream::Failed) && any(Upstream::Succeeded)))
        }
        TriggerRule::AnySuccess if any(Upstream::Succeeded) => Some(Verdict::Start),
        TriggerRule::AnySuccess => all_decided.then_some(Verdict::Skip),
        TriggerRule::AllComplete => all_decided.then_some(Verdict::Start),
        TriggerRule::NoneFailed if any(Upstream::Failed) => Some(Verdict::Skip),
        TriggerRule::NoneFailed => all_decided.then_some(Verdict::Start),
        TriggerRule::AnyFailed if any(Upstream::Failed) => Some(Verdict::Start),
        TriggerRule::AnyFailed => all_decided.then_some(Verdict::Skip),
    }
}
