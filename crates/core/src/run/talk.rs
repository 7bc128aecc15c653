//! Nodes that talk with a person: opening, turn by turn, closing.
//!
//! A conversation is a chain of interrupts of one node. The first and the last ask nobody: the run
//! itself says what opens and closes it. Each one between them waits for an answer, which is a turn.

use serde_json::{Value, json};

use callboard_protocol::{
    ConversationClosed, ConversationExchanged, ConversationOpened, ConversationTurn, Event,
    Failure, InterruptKind, NodeId, Object, Timestamp, TurnRole,
};

use super::perform::Step;
use super::{Run, Stage};
use crate::graph::NodeIndex;
use crate::interrupt::{Decision, OpenInterrupt, Question, key_of};
use crate::talk::{CLOSED, TalkPlan};
use crate::work::Work;

/// Where a node's conversation stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Talk {
    id: String,
    pub(super) opened_at: Timestamp,
    /// The last thing that was said.
    last: ConversationTurn,
    /// What was answered, in order.
    answers: Vec<Value>,
    /// What it came to, once it is closed.
    outcome: Option<Value>,
}

impl Run {
    /// What a node that talks does next.
    pub(super) fn converse(
        &self,
        index: NodeIndex,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Step, Failure> {
        if let Some(write) = self.unwritten_turn(index, at, work) {
            return write;
        }
        let state = &self.nodes[index];
        if self.interrupts.contains_key(&index) || state.stage == Stage::Suspended {
            return self.suspended(index, at);
        }
        let Some(plan) = self.talk_plan(index) else { return Ok(Step::Done(Object::new())) };
        let Some(talk) = &state.talk else {
            let id = key_of(self.told_id().as_str(), &self.node_id(index), state.asked);
            return Ok(Step::Emit(self.asked(index, plan.opening(&id))));
        };
        if let Some(outcome) = &talk.outcome {
            let in_time = state.resumed.as_ref().is_some_and(|closed| closed.value.is_some());
            return match in_time {
                true => Ok(Step::Done(talk.outputs(outcome))),
                false => Err(Failure::new("interrupt_timeout", "nobody answered in time")),
            };
        }
        Ok(Step::Emit(self.asked(index, talk.next_question(plan, at))))
    }

    /// What the run says itself while its node is suspended for a conversation.
    pub(super) fn said_by_itself(
        &self,
        index: NodeIndex,
        open: &OpenInterrupt,
        at: Timestamp,
    ) -> Option<Event> {
        let plan = self.talk_plan(index)?;
        match open.question.kind {
            InterruptKind::ConversationStart => Some(self.opened(index, open, plan, at)),
            InterruptKind::ConversationClose => {
                let talk = self.nodes[index].talk.as_ref()?;
                let outcome = talk.answers.last().cloned().unwrap_or_default();
                let turn = talk.next_turn(TurnRole::System, json!(CLOSED), None, at);
                Some(self.closed(index, talk, turn, outcome))
            }
            InterruptKind::ConversationExchange if plan.answers_itself => {
                let turn = self.nodes[index].talk.as_ref()?.answers.len() + 1;
                self.exchanged(index, json!(format!("mock answer {turn}")), None, at)
            }
            InterruptKind::Approval
            | InterruptKind::Clarification
            | InterruptKind::ExternalEvent
            | InterruptKind::Custom
            | InterruptKind::LowConfidence
            | InterruptKind::ConversationExchange => None,
        }
    }

    fn opened(
        &self,
        index: NodeIndex,
        open: &OpenInterrupt,
        plan: &TalkPlan,
        at: Timestamp,
    ) -> Event {
        let id = open.question.data["conversationId"].as_str().unwrap_or_default().to_owned();
        let (role, from) = match &plan.agent_id {
            Some(agent) => (TurnRole::Agent, agent.as_str()),
            None => (TurnRole::System, "system"),
        };
        Event::ConversationOpened(ConversationOpened {
            node_id: Some(self.node_id(index)),
            agent_id: plan.agent_id.clone(),
            initial_turn: ConversationTurn {
                message_id: format!("{id}:0:{}", role.as_str()),
                from: from.to_owned(),
                content: json!(plan.greeting()),
                ts: at.as_millis(),
                role,
                turn_index: 0,
                speaker_id: plan.agent_id.clone(),
            },
            schema: plan.outcome_schema().cloned(),
            conversation_id: id,
        })
    }

    /// An answer as a turn.
    pub(super) fn exchanged(
        &self,
        index: NodeIndex,
        content: Value,
        by: Option<String>,
        at: Timestamp,
    ) -> Option<Event> {
        let talk = self.nodes[index].talk.as_ref()?;
        let turn = talk.next_turn(TurnRole::User, content, by, at);
        Some(Event::ConversationExchanged(ConversationExchanged {
            node_id: Some(self.node_id(index)),
            conversation_id: talk.id.clone(),
            turn_index: turn.turn_index,
            turn,
        }))
    }

    /// The conversation is ended before its last turn.
    pub(super) fn left(
        &self,
        index: NodeIndex,
        content: Value,
        outcome: Value,
        by: Option<String>,
        at: Timestamp,
    ) -> Option<Event> {
        let talk = self.nodes[index].talk.as_ref()?;
        let turn = talk.next_turn(TurnRole::User, content, by, at);
        Some(self.closed(index, talk, turn, outcome))
    }

    /// Nobody answered in time.
    pub(super) fn fell_silent(&self, index: NodeIndex, at: Timestamp) -> Option<Event> {
        let talk = self.nodes[index].talk.as_ref()?;
        let turn = talk.next_turn(TurnRole::System, json!("timeout"), None, at);
        Some(self.closed(index, talk, turn, Value::Null))
    }

    fn closed(
        &self,
        index: NodeIndex,
        talk: &Talk,
        final_turn: ConversationTurn,
        outcome: Value,
    ) -> Event {
        Event::ConversationClosed(ConversationClosed {
            node_id: Some(self.node_id(index)),
            conversation_id: talk.id.clone(),
            turn_index: final_turn.turn_index,
            final_turn,
            outcome,
        })
    }

    /// The write of a turn that its channel does not hold yet.
    fn unwritten_turn(
        &self,
        index: NodeIndex,
        at: Timestamp,
        work: &mut Work,
    ) -> Option<Result<Step, Failure>> {
        let channel = self.talk_plan(index)?.channel.as_ref()?;
        let state = &self.nodes[index];
        let turn = &state.talk.as_ref()?.last;
        // Nothing but turns is written here, one after the other.
        (state.facts <= turn.turn_index).then(|| self.write(index, channel, json!(turn), at, work))
    }

    pub(super) fn fold_conversation_opened(&mut self, payload: &ConversationOpened, at: Timestamp) {
        let Some(index) = self.talking(payload.node_id.as_ref()) else { return };
        self.nodes[index].talk = Some(Talk {
            id: payload.conversation_id.clone(),
            opened_at: at,
            last: payload.initial_turn.clone(),
            answers: Vec::new(),
            outcome: None,
        });
        self.fold_decision(
            &self.node_id(index),
            Decision { value: Some(Value::Null), by: None, at },
        );
    }

    pub(super) fn fold_exchanged(&mut self, payload: &ConversationExchanged, at: Timestamp) {
        let Some(index) = self.talking(payload.node_id.as_ref()) else { return };
        self.learn_turn(index, &payload.turn);
        if let Some(talk) = &mut self.nodes[index].talk {
            talk.last = payload.turn.clone();
            talk.answers.push(payload.turn.content.clone());
        }
        let value = Some(payload.turn.content.clone());
        self.fold_decision(
            &self.node_id(index),
            Decision { value, by: payload.turn.speaker_id.clone(), at },
        );
    }

    pub(super) fn fold_conversation_closed(&mut self, payload: &ConversationClosed, at: Timestamp) {
        let Some(index) = self.talking(payload.node_id.as_ref()) else { return };
        self.learn_turn(index, &payload.final_turn);
        if let Some(talk) = &mut self.nodes[index].talk {
            talk.last = payload.final_turn.clone();
            talk.outcome = Some(payload.outcome.clone());
        }
        let asked = self.interrupts.get(&index).map(|open| open.question.kind);
        let is_late = asked == Some(InterruptKind::ConversationExchange)
            && payload.final_turn.role == TurnRole::System;
        let by = payload.final_turn.speaker_id.clone();
        let decision = match is_late {
            true => Decision::timeout(at),
            false => Decision { value: Some(payload.outcome.clone()), by, at },
        };
        self.fold_decision(&self.node_id(index), decision);
    }

    /// What a node's conversation is about: its configuration says so, or a supervisor wants to know something.
    pub(super) fn talk_plan(&self, index: NodeIndex) -> Option<&TalkPlan> {
        let asked = || self.nodes[index].dispatching.as_ref()?.talk.as_ref();
        self.plan.node(index).talk.as_ref().or_else(asked)
    }

    fn talking(&self, node: Option<&NodeId>) -> Option<NodeIndex> {
        node.and_then(|node| self.plan.index(node))
    }

    /// What is said into a sensitive channel is sensitive wherever it stands.
    fn learn_turn(&mut self, index: NodeIndex, turn: &ConversationTurn) {
        let channel = self.talk_plan(index).and_then(|talk| talk.channel.as_ref());
        if channel.is_some_and(|channel| self.mask().is_sensitive_channel(channel.as_str())) {
            self.values.sensitive.learn(&turn.content);
        }
    }
}

impl Talk {
    fn next_question(&self, plan: &TalkPlan, at: Timestamp) -> Question {
        if self.answers.len() >= plan.turns() {
            return plan.closing(&self.id);
        }
        plan.exchange(&self.id, self.answers.len(), super::millis(at.since(self.opened_at)))
    }

    fn next_turn(
        &self,
        role: TurnRole,
        content: Value,
        speaker_id: Option<String>,
        at: Timestamp,
    ) -> ConversationTurn {
        let turn_index = self.last.turn_index + 1;
        ConversationTurn {
            message_id: format!("{}:{turn_index}:{}", self.id, role.as_str()),
            from: role.as_str().to_owned(),
            content,
            ts: at.as_millis(),
            role,
            turn_index,
            speaker_id,
        }
    }

    fn outputs(&self, outcome: &Value) -> Object {
        let outputs = json!({
            "conversationId": self.id,
            "turnCount": self.answers.len(),
            "answers": self.answers,
            "outcome": outcome,
        });
        outputs.as_object().cloned().unwrap_or_default()
    }
}
