//! Nodes that carry decisions out: they give work to others, one after the other or side by side, or ask a person.

use callboard_protocol::{ChainPhase, Failure, InterruptKind, Object, Timestamp, WorkflowId};
use serde_json::{Value, json};

use super::child::Child;
use super::handoff::Worker;
use super::join::{Join, JoinOutcome};
use super::perform::Step;
use super::supervise::Ruling;
use super::{Run, Stage};
use crate::graph::NodeIndex;
use crate::interrupt::Question;
use crate::node::NodeKind;
use crate::orchestrate::{AskUserRouting, DecisionKind, DispatchPlan, FanOut};
use crate::talk::TalkPlan;
use crate::work::Work;

/// A decision that is being carried out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dispatching {
    /// None where the node itself names its workers.
    pub(super) ruling: Option<Ruling>,
    pub(super) workers: Vec<Worker>,
    /// How a person is asked, where a conversation is to be held.
    pub(super) talk: Option<TalkPlan>,
}

impl Dispatching {
    pub(super) fn of(ruling: Ruling, plan: &DispatchPlan, agent: Option<String>) -> Self {
        let (workers, talk) = match &ruling.decision.kind {
            DecisionKind::NextWorker { workers, inputs } => {
                let own =
                    |place| inputs.as_ref().and_then(|all: &Vec<Object>| all.get(place)).cloned();
                let workers = workers.iter().enumerate();
                let of = |(place, workflow): (usize, &WorkflowId)| {
                    Worker::of(workflow.clone(), own(place).unwrap_or_default())
                };
                (workers.map(of).collect(), None)
            }
            DecisionKind::AskUser { prompt } => {
                let holds_talk = plan.ask_user_routing != AskUserRouting::Clarification;
                (Vec::new(), holds_talk.then(|| TalkPlan::asking(prompt, agent)))
            }
            DecisionKind::Terminate => (Vec::new(), None),
        };
        Self { ruling: Some(ruling), workers, talk }
    }

    /// Workers that the node itself names.
    pub(super) fn named(workers: Vec<Worker>) -> Self {
        Self { ruling: None, workers, talk: None }
    }

    /// The worker that a child is to be started for.
    pub(super) fn waiting(&mut self, workflow: &WorkflowId) -> Option<&mut Worker> {
        self.workers.iter_mut().find(|worker| worker.workflow == *workflow && worker.is_waiting())
    }
}

/// How far the workers of a node have come.
#[derive(Debug)]
pub(super) enum HandOff<'w> {
    /// This comes next.
    Goes(Step),
    /// Nobody is at work any more.
    Settled(Join<'w>),
}

impl Run {
    /// What a dispatching node does next.
    pub(super) fn dispatch(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let node = self.plan.node(index);
        let under_way = self.nodes[index].dispatching.as_ref();
        let ruling = under_way.and_then(|under_way| under_way.ruling.as_ref());
        let (Some(plan), Some(under_way), Some(ruling)) = (&node.dispatch, under_way, ruling)
        else {
            let message = "no supervisor has decided what is to be done here";
            return Err(Failure::new("no_pending_decision", message));
        };
        match &ruling.decision.kind {
            DecisionKind::Terminate => Ok(Step::Done(Object::new())),
            DecisionKind::AskUser { prompt } => self.ask_user(index, prompt, at),
            DecisionKind::NextWorker { workers, inputs } => {
                let given = inputs.as_ref().map_or(workers.len(), Vec::len);
                if given != workers.len() {
                    let message = format!(
                        "nextWorkerInputs has {given} entries for {} workers; give one for each",
                        workers.len()
                    );
                    return Err(Failure::new("validation_error", message));
                }
                if plan.fan_out_policy == FanOut::Reject && workers.len() > 1 {
                    let message =
                        format!("{} workers are named, and one is allowed", workers.len());
                    return Err(Failure::new("fan_out_unsupported", message));
                }
                match self.hand_off(index, plan, under_way) {
                    HandOff::Goes(step) => Ok(step),
                    HandOff::Settled(join) => self.joined(index, plan, under_way, &join),
                }
            }
        }
    }

    pub(super) fn hand_off<'w>(
        &self,
        index: NodeIndex,
        plan: &DispatchPlan,
        under_way: &'w Dispatching,
    ) -> HandOff<'w> {
        if let Some(event) = self.next_of_handoffs(index, under_way) {
            return HandOff::Goes(Step::Emit(event));
        }
        let workers = &under_way.workers;
        let join = Join::of(plan, workers, |worker| self.has_completed(worker));
        if join.outcome.is_none() {
            let in_flight = workers.iter().filter(|worker| worker.is_under_way()).count();
            let most = if plan.fan_out_policy == FanOut::Parallel { plan.concurrency() } else { 1 };
            let next = workers.iter().find(|worker| worker.began.is_none());
            return HandOff::Goes(match next.filter(|_| in_flight < most) {
                Some(worker) => {
                    Step::Emit(self.chained(index, worker, ChainPhase::DispatchBegan, None))
                }
                None => Step::Wait,
            });
        }
        if let Some(worker) = workers.iter().find(|worker| worker.is_waiting()) {
            let message = "the workers beside it have settled the matter";
            let error = Failure::new("dispatch_superseded", message);
            let phase = ChainPhase::DispatchFailed;
            return HandOff::Goes(Step::Emit(self.chained(index, worker, phase, Some(error))));
        }
        // Those whose end no longer matters end first.
        if workers.iter().any(Worker::is_under_way) {
            return HandOff::Goes(Step::Wait);
        }
        HandOff::Settled(join)
    }

    /// What a decision came to whose workers have all ended.
    fn joined(
        &self,
        index: NodeIndex,
        plan: &DispatchPlan,
        under_way: &Dispatching,
        join: &Join<'_>,
    ) -> Result<Step, Failure> {
        let last = join.ended.last().copied();
        let is_parallel = plan.fan_out_policy == FanOut::Parallel;
        if join.outcome == Some(JoinOutcome::Failed) {
            let culprit = join.ended.iter().find(|worker| !self.has_completed(worker));
            let failure = culprit.map(|worker| self.worker_failure(worker));
            if let Some(failure) = failure.filter(|_| !is_parallel) {
                return Err(failure);
            }
            let details =
                json!({ "joinOutcome": "failed", "children": self.told_children(under_way) });
            let message =
                format!("the workers of node {} did not come to a result", self.node_id(index));
            return Err(Failure::new("join_failed", message)
                .with_details(details.as_object().cloned().unwrap_or_default()));
        }
        let mut outputs = json!({});
        if let Some(child) = last.and_then(|worker| self.child_at(worker)) {
            outputs["childRunId"] = json!(child.run);
            outputs["childStatus"] = json!(child.status);
        }
        if under_way.workers.len() > 1 || is_parallel {
            outputs["children"] = self.told_children(under_way);
        }
        if let Some(outcome) = join.outcome.filter(|_| is_parallel) {
            let order = join.ended.iter().filter_map(|worker| self.child_at(worker));
            outputs["joinOutcome"] = json!(outcome.as_str());
            outputs["mergeOrder"] = order.map(|child| json!(child.run)).collect();
        }
        Ok(Step::Done(outputs.as_object().cloned().unwrap_or_default()))
    }

    /// Asks a person what a supervisor wants to know; the answer is the node's output.
    fn ask_user(&self, index: NodeIndex, prompt: &str, at: Timestamp) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        if self.talk_plan(index).is_some() {
            // What is said here goes into no channel, so that nothing is to be checked.
            let step = self.converse(index, at, &mut Work::default())?;
            return Ok(match step {
                Step::Done(mut talked) => {
                    let answer = talked.remove("outcome").unwrap_or_default();
                    Step::Done(Object::from_iter([("answer".to_owned(), answer)]))
                }
                Step::Emit(_) | Step::Wait => step,
            });
        }
        if self.interrupts.contains_key(&index) || state.stage == Stage::Suspended {
            return self.suspended(index, at);
        }
        match &state.resumed {
            Some(answered) => {
                let answer = answered.result()?["answers"][QUESTION].clone();
                Ok(Step::Done(Object::from_iter([("answer".to_owned(), answer)])))
            }
            None => {
                let data = json!({ "questions": [{ "id": QUESTION, "question": prompt }] });
                let kind = InterruptKind::Clarification;
                let question = Question { kind, data, resume_schema: None, timeout_ms: None };
                Ok(Step::Emit(self.asked(index, question)))
            }
        }
    }

    /// Whether a node's workers have come to something, so that those still at work must stop.
    pub(super) fn has_joined(&self, index: NodeIndex) -> bool {
        let node = self.plan.node(index);
        let (Some(plan), Some(under_way)) = (&node.dispatch, &self.nodes[index].dispatching) else {
            return false;
        };
        let join = Join::of(plan, &under_way.workers, |worker| self.has_completed(worker));
        join.outcome.is_some()
    }

    pub(super) fn worker_failure(&self, worker: &Worker) -> Failure {
        let refused = worker.refused.clone();
        let unknown = || Failure::new("child_run_failed", "the worker did not start");
        refused.or_else(|| self.child_at(worker).map(Child::failure)).unwrap_or_else(unknown)
    }

    fn told_children(&self, under_way: &Dispatching) -> Value {
        let tell = |worker: &Worker| {
            let mut told = json!({ "workflowId": worker.workflow });
            let child = self.child_at(worker);
            if let Some(child) = child {
                told["childRunId"] = json!(child.run);
                told["childStatus"] = json!(child.status);
            }
            let error = worker.refused.as_ref().or(child.and_then(|child| child.error.as_ref()));
            if let Some(error) = error {
                told["error"] = json!({ "code": error.code, "message": error.message });
            }
            told
        };
        under_way.workers.iter().filter(|worker| worker.began.is_some()).map(tell).collect()
    }

    /// A dispatching node takes the decision that waits for it.
    pub(super) fn fold_dispatch_started(&mut self, index: NodeIndex) {
        let plan = self.plan.clone();
        let node = plan.node(index);
        let dispatch = node.dispatch.as_ref().filter(|_| node.kind == NodeKind::Dispatch);
        let Some(dispatch) = dispatch else { return };
        if self.nodes[index].dispatching.is_some() {
            return;
        }
        self.orchestra.dispatches += 1;
        let agent = self.orchestra.agent.as_ref().map(|agent| agent.agent_id.clone());
        let taken = self.orchestra.pending.take();
        self.nodes[index].dispatching =
            taken.map(|ruling| Dispatching::of(ruling, dispatch, agent));
    }
}

/// The id of the one thing that a supervisor asks.
const QUESTION: &str = "answer";
