//! Supervisors: what they decide in a turn, who is asked where they are not sure, and when they end the run.

use callboard_protocol::{
    AgentRef, ConfidenceEscalated, EscalationKind, Event, Failure, InterruptKind, Object,
    RunOrchestratorDecided, Timestamp,
};
use serde_json::{Value, json};

use super::answer::is_verdict;
use super::command::RetryClass;
use super::perform::Step;
use super::{Run, Stage};
use crate::birth::COUNTS_TURNS;
use crate::confidence::{Confidence, escalation_threshold, falls_short};
use crate::graph::NodeIndex;
use crate::interrupt::{Answer, Question, Unfit};
use crate::node::NodeKind;
use crate::orchestrate::{DecisionKind, OrchestratorDecision};

/// What supervisors have come to, across the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Orchestra {
    /// Whose decisions the run follows; never another's.
    pub(super) agent: Option<AgentRef>,
    /// Turns that supervisors have begun.
    pub(super) turns: u64,
    /// Visits of dispatching nodes.
    pub(super) dispatches: u64,
    /// A decision that nobody has carried out yet.
    pub(super) pending: Option<Ruling>,
    /// The supervisor that has ended the run.
    pub(super) ended_by: Option<NodeIndex>,
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ruling {
    pub(super) decision: OrchestratorDecision,
    /// Its event.
    pub(super) at: u64,
    /// Whether a person stands behind it: then nobody is asked again.
    is_ratified: bool,
    /// Whether the log says that a person must be asked.
    is_escalated: bool,
}

impl Ruling {
    fn passed_on(&self) -> Step {
        Step::Done(Object::from_iter([("decision".to_owned(), self.decision.value.clone())]))
    }
}

impl Run {
    /// What a supervisor does next: decide, ask where it is not sure enough, and pass the decision on.
    pub(super) fn supervise(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        if self.interrupts.contains_key(&index) || state.stage == Stage::Suspended {
            return self.suspended(index, at);
        }
        let Some(ruling) = &state.ruling else { return self.propose(index) };
        let floor = self.birth.limits.confidence_floor;
        let is_bold = !matches!(ruling.decision.kind, DecisionKind::AskUser { .. });
        if ruling.is_ratified || !is_bold || !falls_short(ruling.decision.confidence, floor) {
            return Ok(ruling.passed_on());
        }
        if !ruling.is_escalated {
            return Ok(Step::Emit(self.escalated(index, ruling, floor)));
        }
        match &state.resumed {
            None => Ok(Step::Emit(self.asked(index, self.floor_question(index, ruling, floor)))),
            Some(answered) => {
                let answer = answered.result()?;
                let Some(edited) = answer.get("editedArtifactData") else {
                    return Ok(ruling.passed_on());
                };
                let decision = OrchestratorDecision::read(edited).map_err(invalid)?;
                self.decided(index, &decision).map(Step::Emit)
            }
        }
    }

    /// The next decision of a script, once the supervisor is sure of it or a person has ratified it.
    fn propose(&self, index: NodeIndex) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        let plan = self.plan.node(index).supervisor.as_ref();
        let scripted = plan.and_then(|plan| plan.decision(state.visit));
        let Some(decision) = scripted else {
            let message = "the supervisor has neither an installed agent nor a plan for this turn";
            return Err(Failure::new("validation_error", message));
        };
        let stated = plan.and_then(|plan| plan.own_confidence);
        let threshold = escalation_threshold(&self.birth.configurable, None);
        let Some(observed) = stated.filter(|_| falls_short(stated, threshold)) else {
            return self.decided(index, decision).map(Step::Emit);
        };
        let Some(answered) = &state.resumed else {
            let (agent, proposed) = (self.supervisor_id(index), Some(decision.value.clone()));
            let question = Question::low_confidence(&agent, threshold, observed, proposed);
            return Ok(Step::Emit(self.asked(index, question)));
        };
        let ratified = OrchestratorDecision::read(&answered.result()?).map_err(invalid)?;
        self.decided(index, &ratified).map(Step::Emit)
    }

    /// What an agent that supervises has come to, as a decision or as the node's failure.
    pub(super) fn ruled(&self, index: NodeIndex, outputs: &Object) -> Event {
        let read = OrchestratorDecision::read(&Value::Object(outputs.clone())).map_err(invalid);
        match read.and_then(|decision| self.decided(index, &decision)) {
            Ok(event) => event,
            Err(failure) => self.failed_or_retried(index, failure, RetryClass::Final),
        }
    }

    fn decided(&self, index: NodeIndex, decision: &OrchestratorDecision) -> Result<Event, Failure> {
        let agent_id = self.supervisor_id(index);
        let known = self.orchestra.agent.as_ref();
        if let Some(known) = known.filter(|known| known.agent_id != agent_id) {
            let message = format!(
                "the run follows the decisions of {}, and {agent_id} cannot decide in it",
                known.agent_id
            );
            return Err(Failure::new("validation_error", message));
        }
        Ok(Event::RunOrchestratorDecided(RunOrchestratorDecided {
            node_id: Some(self.node_id(index)),
            agent_id,
            decision: decision.value.clone(),
            iteration: (self.birth.limits.execution_model >= COUNTS_TURNS)
                .then_some(self.orchestra.turns),
        }))
    }

    fn escalated(&self, index: NodeIndex, ruling: &Ruling, floor: Confidence) -> Event {
        let worker_id = match &ruling.decision.kind {
            DecisionKind::NextWorker { workers, .. } => workers.first().cloned(),
            DecisionKind::AskUser { .. } | DecisionKind::Terminate => None,
        };
        Event::ConfidenceEscalated(ConfidenceEscalated {
            node_id: Some(self.node_id(index)),
            confidence: ruling.decision.confidence.map_or(0.0, Confidence::get),
            floor: floor.get(),
            escalation_kind: EscalationKind::Escalate,
            parent_run_id: self.told_id().clone(),
            worker_id,
            original_decision: Some(ruling.decision.value.clone()),
        })
    }

    fn floor_question(&self, index: NodeIndex, ruling: &Ruling, floor: Confidence) -> Question {
        let what = match &ruling.decision.kind {
            DecisionKind::NextWorker { workers, .. } => {
                let names: Vec<&str> = workers.iter().map(|worker| worker.as_str()).collect();
                format!("give work to {}", names.join(", "))
            }
            DecisionKind::AskUser { .. } => "ask somebody".to_owned(),
            DecisionKind::Terminate => "end the run".to_owned(),
        };
        let agent = self.supervisor_id(index);
        let stated = ruling.decision.confidence.map_or(0.0, Confidence::get);
        let floor = floor.get();
        Question {
            kind: InterruptKind::Approval,
            data: json!({
                "artifactId": self.node_id(index),
                "artifactType": "orchestrator-decision",
                "title": format!("{agent} is {stated} sure, {floor} is needed: {what}"),
                "actions": ["accept", "reject", "edit-accept"],
                "artifactData": {
                    "agentId": agent, "threshold": floor, "observed": stated,
                    "decision": ruling.decision.value,
                },
            }),
            resume_schema: None,
            timeout_ms: None,
        }
    }

    /// Whether an answer to a supervisor's question is a decision, where it must be one.
    pub(super) fn check_ruling(&self, index: NodeIndex, answer: &Answer) -> Result<(), Unfit> {
        if self.plan.node(index).kind != NodeKind::Supervisor {
            return Ok(());
        }
        let replacement = match answer {
            Answer::Approval(answer) => answer.edited.as_ref(),
            Answer::Plain(value) => Some(value).filter(|value| !is_verdict(value)),
            Answer::Clarification { .. } | Answer::Turn { .. } | Answer::Farewell { .. } => None,
        };
        match replacement.map(OrchestratorDecision::read) {
            Some(Err(why)) => Err(Unfit::Invalid(format!("no decision: {why}"))),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Who decides at a node: an installed agent, or the one that the definition names.
    fn supervisor_id(&self, index: NodeIndex) -> String {
        let node = self.plan.node(index);
        let pinned = self.pin(index).map(|pin| pin.agent_id.clone());
        let configured = || node.supervisor.as_ref().and_then(|plan| plan.agent_id.clone());
        let named = || node.node.agent.as_ref().map(|agent| agent.agent_id.clone());
        let nameless = || format!("host:supervisor:{}", node.node.id);
        pinned.or_else(configured).or_else(named).unwrap_or_else(nameless)
    }

    pub(super) fn fold_decided(&mut self, payload: &RunOrchestratorDecided, at: u64) {
        let Some(index) = payload.node_id.as_ref().and_then(|node| self.plan.index(node)) else {
            return;
        };
        let Ok(decision) = OrchestratorDecision::read(&payload.decision) else { return };
        let named = self.plan.node(index).node.agent.clone();
        let named = named.filter(|agent| agent.agent_id == payload.agent_id);
        let nameless = || AgentRef {
            agent_id: payload.agent_id.clone(),
            name: None,
            model_class: None,
            memory_ref: None,
            version: None,
            channel: None,
            source_manifest_id: None,
        };
        self.orchestra.agent.get_or_insert_with(|| named.unwrap_or_else(nameless));
        let state = &mut self.nodes[index];
        let is_ratified = state.resumed.is_some();
        state.ruling = Some(Ruling { decision, at, is_ratified, is_escalated: is_ratified });
    }

    pub(super) fn fold_escalated(&mut self, payload: &ConfidenceEscalated) {
        let index = payload.node_id.as_ref().and_then(|node| self.plan.index(node));
        if let Some(index) = index
            && let Some(ruling) = &mut self.nodes[index].ruling
        {
            ruling.is_escalated = true;
        }
    }

    /// A supervisor has passed its decision on: a dispatch node may carry it out, or the run is over.
    pub(super) fn fold_ruling(&mut self, index: NodeIndex) {
        let Some(ruling) = self.nodes[index].ruling.clone() else { return };
        if ruling.decision.kind == DecisionKind::Terminate {
            self.orchestra.ended_by = Some(index);
        } else {
            self.orchestra.pending = Some(ruling);
        }
    }
}

fn invalid(why: String) -> Failure {
    Failure::new("validation_error", format!("no decision: {why}"))
}
