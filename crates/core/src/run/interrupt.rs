//! Nodes that ask and wait: raising the question, taking answers, and what happens when none comes.

use serde_json::Value;

use callboard_protocol::{
    ApprovalReceived, ApprovalRequested, Ask, ClarificationRequested, ClarificationResolved, Event,
    Failure, InterruptKind, InterruptRequested, InterruptResolved, NodeId, NodeResumed,
    NodeSuspended, Object, RunStatus, Timestamp, Vote,
};

use super::command::Refusal;
use super::perform::Step;
use super::{Answered, Entry, Phase, Run, Stage};
use crate::bounds::weigh;
use crate::budget::is_budget_question;
use crate::graph::NodeIndex;
use crate::interrupt::{
    Answer, ApprovalAnswer, Approver, CastVote, Decision, OpenInterrupt, Question, Resolution,
    Unfit, Via, is_named, key_of, may_decide,
};

/// The reason of a question that nobody answered in time.
const TIMEOUT: &str = "timeout";

/// An open question, for readers.
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptView {
    pub id: String,
    pub node: NodeId,
    pub kind: InterruptKind,
    pub key: String,
    pub data: Value,
    pub resume_schema: Option<Object>,
    pub requested_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Whether a signed link is not enough to answer.
    pub requires_auth: bool,
    /// Where several must decide, those who have so far.
    pub votes: Vec<CastVote>,
}

impl InterruptView {
    /// Whether an answer under this name would count.
    pub fn may_decide(&self, voter: &str, holds: impl Fn(&str) -> bool) -> bool {
        may_decide(&self.data, voter, holds)
    }

    /// Whether its list of approvers has exactly this name.
    pub fn names(&self, voter: &str) -> bool {
        is_named(&self.data, voter)
    }
}

impl Run {
    /// The questions that wait for an answer, in the order of the graph.
    pub fn interrupts(&self) -> impl Iterator<Item = InterruptView> + '_ {
        let is_open = !matches!(self.lifecycle.phase, Phase::Ended { .. });
        let waiting = self.interrupts.iter().filter(move |(_, open)| {
            is_open && open.decision.is_none() && open.question.kind.is_asked()
        });
        waiting.map(|(index, open)| InterruptView {
            id: open.id.clone(),
            node: self.node_id(*index),
            kind: open.question.kind,
            key: open.key.clone(),
            data: self.masked_value(&self.shown_data(*index, &open.question)),
            resume_schema: open.question.resume_schema.clone(),
            requested_at: open.requested_at,
            expires_at: open.deadline(),
            requires_auth: Question::requires_auth(&self.plan.node(*index).node),
            votes: open.votes.clone(),
        })
    }

    /// The questions that are open after these entries, which must be the last ones folded. None: these entries
    /// changed nothing about them.
    pub fn questions_after(&self, entries: &[Entry]) -> Option<Vec<InterruptView>> {
        // Whatever ends a node or the run takes its open question along.
        let touches = |entry: &Entry| {
            matches!(
                entry.event,
                Event::InterruptRequested(_)
                    | Event::InterruptResolved(_)
                    | Event::ApprovalReceived(_)
                    | Event::ClarificationResolved(_)
                    | Event::ConversationExchanged(_)
                    | Event::ConversationClosed(_)
                    | Event::Vote(_)
                    | Event::NodeFailed(_)
                    | Event::NodeCancelled(_)
                    | Event::NodeSkipped(_)
                    // A branch brings the questions of its source along.
                    | Event::RunResumed(_)
            ) || Event::is_terminal(entry.event.kind())
        };
        (self.has_asked && entries.iter().any(touches)).then(|| self.interrupts().collect())
    }

    /// What a gate does next: ask, wait, and act on the answer.
    pub(super) fn gate(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        if self.interrupts.contains_key(&index) || state.stage == Stage::Suspended {
            return self.suspended(index, at);
        }
        match &state.resumed {
            Some(answered) => answered.outputs(&self.plan.node(index).node.type_id).map(Step::Done),
            None => Question::of(&self.plan.node(index).node, &state.inputs)
                .map(|question| Step::Emit(self.asked(index, question))),
        }
    }

    /// What a performed node does by itself: record that it waits, and that it goes on.
    pub(super) fn activity_step(&self, index: NodeIndex, at: Timestamp) -> Option<Event> {
        let waits =
            self.interrupts.contains_key(&index) || self.nodes[index].stage == Stage::Suspended;
        match waits.then(|| self.suspended(index, at)) {
            Some(Ok(Step::Emit(event))) => Some(event),
            Some(Ok(Step::Wait | Step::Done(_)) | Err(_)) | None => None,
        }
    }

    /// From the question to the moment at which its answer is known and recorded.
    pub(super) fn suspended(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        let Some(open) = self.interrupts.get(&index) else {
            let answered = state.resumed.as_ref();
            return Ok(answered
                .map_or(Step::Wait, |answered| Step::Emit(self.node_resumed(index, answered))));
        };
        if let Some(decision) = &open.decision {
            return Ok(Step::Emit(self.resolved(index, open, decision)));
        }
        if state.stage != Stage::Suspended {
            let is_unsure = open.question.kind == InterruptKind::LowConfidence;
            let unsure = is_unsure.then_some(&open.question.data);
            return Ok(Step::Emit(self.legacy_request(index, open).unwrap_or_else(|| {
                Event::NodeSuspended(NodeSuspended {
                    node_id: self.node_id(index),
                    interrupt_id: open.id.clone(),
                    kind: open.question.kind,
                    key: open.key.clone(),
                    reason: reason_of(open.question.kind).map(str::to_owned),
                    agent_id: unsure.and_then(|data| data["agentId"].as_str()).map(str::to_owned),
                    threshold: unsure.and_then(|data| data["threshold"].as_f64()),
                    observed: unsure.and_then(|data| data["observed"].as_f64()),
                })
            })));
        }
        if let Some(said) = self.said_by_itself(index, open, at) {
            return Ok(Step::Emit(said));
        }
        match open.deadline() {
            Some(deadline) if deadline <= at => Ok(Step::Emit(self.timed_out(index, open, at))),
            Some(_) | None => Ok(Step::Wait),
        }
    }

    pub(super) fn asked(&self, index: NodeIndex, question: Question) -> Event {
        let node = &self.plan.node(index).node;
        Event::InterruptRequested(InterruptRequested {
            node_id: Some(node.id.clone()),
            kind: question.kind,
            key: key_of(self.told_id().as_str(), &node.id, self.nodes[index].asked),
            data: question.data,
            resume_schema: question.resume_schema,
            timeout_ms: question.timeout_ms,
        })
    }

    /// The event that clients from before the primitive look for, recorded once.
    fn legacy_request(&self, index: NodeIndex, open: &OpenInterrupt) -> Option<Event> {
        if open.is_announced {
            return None;
        }
        let (node_id, data) = (self.node_id(index), &open.question.data);
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let texts = |key: &str| -> Vec<String> {
            let listed = data[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            // The old vocabulary knows this action by its first half.
            listed
                .map(|text| if text == "edit-accept" { "edit".into() } else { text.to_owned() })
                .collect()
        };
        match open.question.kind {
            InterruptKind::Approval => Some(Event::ApprovalRequested(ApprovalRequested {
                node_id,
                interrupt_id: open.id.clone(),
                artifact_id: text("artifactId"),
                artifact_type: text("artifactType"),
                title: text("title"),
                actions: texts("actions"),
                approvers_list: texts("approversList"),
                required_approvals: u32::try_from(open.required_approvals()).unwrap_or(u32::MAX),
            })),
            InterruptKind::Clarification => {
                Some(Event::ClarificationRequested(ClarificationRequested {
                    node_id,
                    interrupt_id: open.id.clone(),
                    questions: data["questions"].as_array().cloned().unwrap_or_default(),
                }))
            }
            InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::LowConfidence
            | InterruptKind::ConversationStart
            | InterruptKind::ConversationExchange
            | InterruptKind::ConversationClose => None,
        }
    }

    fn timed_out(&self, index: NodeIndex, open: &OpenInterrupt, at: Timestamp) -> Event {
        if open.question.kind == InterruptKind::Approval {
            return Event::ApprovalReceived(ApprovalReceived {
                node_id: self.node_id(index),
                interrupt_id: Some(open.id.clone()),
                action: "timeout".into(),
                decided_by: None,
                decided_at: at,
                feedback: None,
                refine_feedback: None,
                edited_artifact_data: None,
            });
        }
        self.fell_silent(index, at)
            .unwrap_or_else(|| self.resolved(index, open, &Decision::timeout(at)))
    }

    fn resolved(&self, index: NodeIndex, open: &OpenInterrupt, decision: &Decision) -> Event {
        let is_late = decision.value.is_none();
        Event::InterruptResolved(InterruptResolved {
            node_id: self.node_id(index),
            interrupt_id: open.id.clone(),
            kind: open.question.kind,
            resume_value: decision.value.clone(),
            run_id: self.told_id().clone(),
            resolved_at: decision.at,
            resolved_by: decision.by.clone(),
            outcome: is_late.then(|| "rejected".into()),
            reason: is_late.then(|| TIMEOUT.into()),
        })
    }

    fn node_resumed(&self, index: NodeIndex, resumed: &Answered) -> Event {
        Event::NodeResumed(NodeResumed {
            node_id: self.node_id(index),
            interrupt_id: Some(resumed.interrupt_id.clone()),
            resume_value: resumed.value.clone(),
        })
    }

    /// Takes an answer, or says why it does not count.
    pub(super) fn on_answer(
        &self,
        resolution: &Resolution,
        at: Timestamp,
    ) -> Result<Vec<Event>, Refusal> {
        let node = resolution.node.clone();
        let index = self.plan.index(&node).ok_or(Refusal::NoInterrupt { node: node.clone() })?;
        let open = match self.interrupts.get(&index).filter(|open| open.question.kind.is_asked()) {
            Some(open) if open.decision.is_none() => open,
            Some(_) => return Err(Refusal::AlreadyResolved { node }),
            None if self.nodes[index].resumed.is_some() => {
                return Err(Refusal::AlreadyResolved { node });
            }
            None => return Err(Refusal::NoInterrupt { node }),
        };
        if let Via::Token { interrupt_id } = &resolution.via {
            if *interrupt_id != open.id {
                return Err(Refusal::AlreadyResolved { node });
            }
            if Question::requires_auth(&self.plan.node(index).node) {
                return Err(Refusal::KeyRequired { node });
            }
        }
        let fits = weigh(&resolution.value).map_err(|failure| Unfit::Invalid(failure.message));
        let answer = fits.and_then(|_| open.judge(&resolution.value)).and_then(|answer| {
            self.check_ruling(index, &answer)?;
            Ok(answer)
        });
        let answer = answer.map_err(|unfit| match unfit {
            Unfit::Invalid(why) => Refusal::InvalidAnswer { node: node.clone(), why },
            Unfit::Uncorrelated(why) => Refusal::Uncorrelated { node: node.clone(), why },
        })?;
        let by = resolution.by.as_ref().map(ToString::to_string);
        match answer {
            Answer::Approval(answer) => {
                let approver = Approver::of(resolution, answer.voter.as_deref())?;
                self.approval_events(index, open, answer, &approver, at)
            }
            Answer::Clarification { answers } => {
                Ok(vec![Event::ClarificationResolved(ClarificationResolved {
                    node_id: node,
                    interrupt_id: Some(open.id.clone()),
                    answers,
                    answered_by: by,
                })])
            }
            Answer::Plain(value) => {
                Ok(vec![self.resolved(index, open, &Decision { value: Some(value), by, at })])
            }
            Answer::Turn { content } => {
                Ok(self.exchanged(index, content, by, at).into_iter().collect())
            }
            Answer::Farewell { content, outcome } => {
                Ok(self.left(index, content, outcome, by, at).into_iter().collect())
            }
        }
    }

    /// One approver's action: recorded as a vote while more are needed, as the decision once it is one.
    fn approval_events(
        &self,
        index: NodeIndex,
        open: &OpenInterrupt,
        answer: ApprovalAnswer,
        approver: &Approver,
        at: Timestamp,
    ) -> Result<Vec<Event>, Refusal> {
        let node_id = self.node_id(index);
        if !approver.may_decide(&open.question.data) {
            return Err(Refusal::NotAnApprover { node: node_id });
        }
        if answer.action == "ask" {
            let question = answer.question.unwrap_or_default();
            return Ok(vec![Event::Ask(Ask {
                node_id,
                interrupt_id: open.id.clone(),
                question,
                asked_by: Some(approver.told()),
            })]);
        }
        let mut events = Vec::new();
        if open.required_approvals() > 1 {
            events.push(Event::Vote(Vote {
                node_id: node_id.clone(),
                interrupt_id: open.id.clone(),
                voter: approver.name.clone(),
                cast_by: approver.delegate.clone(),
                action: answer.action.clone(),
            }));
        }
        if open.settles(&approver.name, &answer.action) {
            events.push(Event::ApprovalReceived(ApprovalReceived {
                node_id,
                interrupt_id: Some(open.id.clone()),
                action: answer.action,
                decided_by: Some(approver.told()),
                decided_at: at,
                feedback: answer.feedback,
                refine_feedback: answer.refine_feedback,
                edited_artifact_data: answer.edited,
            }));
        }
        Ok(events)
    }

    pub(super) fn fold_interrupt_requested(&mut self, payload: &InterruptRequested, entry: &Entry) {
        let Some(index) = payload.node_id.as_ref().and_then(|node| self.plan.index(node)) else {
            return;
        };
        self.nodes[index].asked += 1;
        self.has_asked = true;
        if is_budget_question(&payload.data) {
            self.fold_budget_asked();
        }
        self.interrupts.insert(
            index,
            OpenInterrupt {
                // The key is unique in the run, and a replay says the same.
                id: payload.key.clone(),
                question: Question {
                    kind: payload.kind,
                    data: payload.data.clone(),
                    resume_schema: payload.resume_schema.clone(),
                    timeout_ms: payload.timeout_ms,
                },
                key: payload.key.clone(),
                requested_at: entry.at,
                votes: Vec::new(),
                decision: None,
                is_announced: false,
            },
        );
    }

    pub(super) fn fold_announced(&mut self, node: &NodeId) {
        let index = self.plan.index(node);
        if let Some(open) = index.and_then(|index| self.interrupts.get_mut(&index)) {
            open.is_announced = true;
        }
    }

    pub(super) fn fold_suspended(&mut self, payload: &NodeSuspended) {
        let Some(index) = self.plan.index(&payload.node_id) else { return };
        self.nodes[index].stage = Stage::Suspended;
        if let Some(open) = self.interrupts.get_mut(&index) {
            // Logs from before ids were keys have another one.
            open.id = payload.interrupt_id.clone();
        }
    }

    pub(super) fn fold_vote(&mut self, payload: &Vote) {
        let index = self.plan.index(&payload.node_id);
        if let Some(open) = index.and_then(|index| self.interrupts.get_mut(&index)) {
            open.votes.retain(|vote| vote.voter != payload.voter);
            open.votes
                .push(CastVote { voter: payload.voter.clone(), action: payload.action.clone() });
        }
    }

    pub(super) fn fold_decision(&mut self, node: &NodeId, decision: Decision) {
        let index = self.plan.index(node);
        if let Some(open) = index.and_then(|index| self.interrupts.get_mut(&index)) {
            open.decision = Some(decision);
        }
    }

    pub(super) fn fold_interrupt_resolved(&mut self, payload: &InterruptResolved) {
        let Some(index) = self.plan.index(&payload.node_id) else { return };
        let asked = self.interrupts.remove(&index);
        let answered = Answered {
            interrupt_id: payload.interrupt_id.clone(),
            kind: payload.kind,
            data: asked.map_or(Value::Null, |asked| asked.question.data),
            // An answer may be null, and null is not written as a value: only the reason shows it.
            value: (payload.reason.as_deref() != Some(TIMEOUT))
                .then(|| payload.resume_value.clone().unwrap_or_default()),
            by: payload.resolved_by.clone(),
            at: payload.resolved_at,
        };
        if self.kind(index).is_performed() {
            self.fold_budget_answered(&answered);
        }
        if !is_budget_question(&answered.data) {
            self.nodes[index].decided = Some(answered.clone());
        }
        self.nodes[index].resumed = Some(answered);
    }

    pub(super) fn fold_node_resumed(&mut self, node: &NodeId) {
        let Some(index) = self.plan.index(node) else { return };
        self.nodes[index].stage = Stage::Active;
        if self.kind(index).is_performed() {
            // Its last attempt ended with the question; the answer is an input of the next.
            self.nodes[index].attempt += 1;
        }
    }

    /// The status of a run in which nothing moves and a person is asked.
    pub(super) fn waiting_status(&self) -> Option<(NodeIndex, RunStatus)> {
        if !self.flow.ready.is_empty() {
            return None;
        }
        let mut waiting =
            self.flow.active.iter().map(|index| Some((*index, self.waits_as(*index)?)));
        let first = waiting.next()??;
        waiting.all(|waits| waits.is_some()).then_some(first)
    }

    /// The status that a node which waits for a person gives its run.
    fn waits_as(&self, index: NodeIndex) -> Option<RunStatus> {
        if self.nodes[index].stage != Stage::Suspended {
            return self.waiting_child(index);
        }
        let open = self.interrupts.get(&index).filter(|open| open.decision.is_none())?;
        match open.question.kind {
            InterruptKind::Approval
            | InterruptKind::LowConfidence
            | InterruptKind::ConversationExchange => Some(RunStatus::WaitingApproval),
            InterruptKind::Clarification | InterruptKind::Custom => Some(RunStatus::WaitingInput),
            InterruptKind::ExternalEvent => Some(RunStatus::WaitingExternal),
            InterruptKind::ConversationStart | InterruptKind::ConversationClose => None,
        }
    }
}

/// What a suspension says of itself where its run's status does not.
fn reason_of(kind: InterruptKind) -> Option<&'static str> {
    match kind {
        InterruptKind::LowConfidence => Some("low-confidence"),
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose => Some("conversation-input"),
        InterruptKind::Approval
        | InterruptKind::Clarification
        | InterruptKind::ExternalEvent
        | InterruptKind::Custom => None,
    }
}
