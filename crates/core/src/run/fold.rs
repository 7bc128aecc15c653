//! How each event changes the state. Total: nothing here can refuse.

use callboard_protocol::{
    ChannelWritten, Event, EventId, NodeCompleted, NodeFailed, NodeId, NodeRetried, NodeStarted,
    Object, OtherEvent, RunStatus, Timestamp,
};

use super::evaluation::Evaluation;
use super::flow::Settled;
use super::{Entry, Run, Stage, Turn};
use crate::bounds::{weight, weight_of};
use crate::channel::{Bounds, Channel, Evolution, breaking_change, evolution};
use crate::graph::NodeIndex;
use crate::interrupt::Decision;
use crate::node::NodeKind;

impl Run {
    /// Folds one event. An event kind that this build does not know is kept in the log and skipped here.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    pub fn apply(&mut self, entry: &Entry) {
        let at = entry.at;
        self.effort.begin();
        self.leave_source(entry);
        match &entry.event {
            Event::RunStarted(_) => self.fold_started(at),
            Event::RosterRunInitiated(_)
            | Event::TriggerDeliveryAttempted(_)
            | Event::RunDeadLettered(_) => self.announced.fold(&entry.event),
            Event::BudgetReserved(payload) => self.fold_reserved(payload),
            Event::BudgetConsumed(payload) => self.fold_consumed(payload),
            Event::BudgetThresholdCrossed(payload) => self.fold_crossed(payload),
            Event::BudgetExhausted(payload) => self.fold_exhausted(payload),
            Event::RunCompleted(_) => self.fold_ended(RunStatus::Completed, at, None),
            Event::RunFailed(payload) => {
                self.fold_ended(RunStatus::Failed, at, Some(payload.error.clone()))
            }
            Event::RunCancelled(_) => self.fold_ended(RunStatus::Cancelled, at, None),
            Event::RunPaused(_) => self.fold_paused(at),
            Event::RunResumed(_) => self.fold_resumed(at),
            Event::NodeStarted(payload) => self.fold_node_started(payload, at),
            Event::NodeCompleted(payload) => self.fold_node_completed(payload, at),
            Event::NodeFailed(payload) => self.fold_node_failed(payload, at),
            Event::NodeRetried(payload) => self.fold_node_retried(payload, at),
            Event::NodeSkipped(payload) => self.settle_as(&payload.node_id, Stage::Skipped, at),
            Event::NodeCancelled(payload) => self.settle_as(&payload.node_id, Stage::Cancelled, at),
            Event::ChannelWritten(payload) => self.fold_channel(payload, entry),
            Event::VariableChanged(payload) => {
                if self.mask().is_sensitive_variable(&payload.name) {
                    self.values.sensitive.learn(&payload.next);
                }
                self.values.set(&payload.name, &payload.next);
                self.count_fact(payload.node_id.as_ref());
                if let Some(index) = payload.node_id.as_ref().and_then(|id| self.plan.index(id)) {
                    self.fold_taken(index);
                }
            }
            Event::OutputChunk(payload) => {
                self.fold_chunk_cost(payload);
                self.count_fact(Some(&payload.node_id));
            }
            Event::VersionPinned(payload) => {
                self.values.pins.entry(payload.change_id.clone()).or_insert(payload.version);
            }
            Event::LoopbackLimit(payload) => self.fold_loopback_limit(&payload.node_id),
            Event::CapBreached(_) | Event::PauseRequested(_) | Event::Unreadable(_) => {
                self.stops.fold(entry);
            }
            Event::CancelRequested(_) => {
                self.lifecycle.end_pause(at);
                self.stops.fold(entry);
            }
            Event::InterruptRequested(payload) => self.fold_interrupt_requested(payload, entry),
            Event::ApprovalRequested(payload) => self.fold_announced(&payload.node_id),
            Event::ClarificationRequested(payload) => self.fold_announced(&payload.node_id),
            Event::NodeSuspended(payload) => self.fold_suspended(payload),
            Event::Vote(payload) => self.fold_vote(payload),
            Event::ApprovalReceived(payload) => {
                self.fold_decision(&payload.node_id, Decision::of_approval(payload));
            }
            Event::ClarificationResolved(payload) => {
                self.fold_decision(&payload.node_id, Decision::of_clarification(payload, at));
            }
            Event::ConversationOpened(payload) => self.fold_conversation_opened(payload, at),
            Event::ConversationExchanged(payload) => self.fold_exchanged(payload, at),
            Event::ConversationClosed(payload) => self.fold_conversation_closed(payload, at),
            Event::InterruptResolved(payload) => self.fold_interrupt_resolved(payload),
            Event::NodeResumed(payload) => self.fold_node_resumed(&payload.node_id),
            Event::NodeDispatched(payload) => self.fold_dispatched(payload),
            Event::ChildChanged(payload) => self.fold_child_changed(payload, entry.sequence),
            Event::RunOrchestratorDecided(payload) => self.fold_decided(payload, entry.sequence),
            Event::WorkflowChained(payload) => self.fold_chained(payload, entry.sequence),
            Event::ConfidenceEscalated(payload) => self.fold_escalated(payload),
            Event::MemoryWritten(payload) => self.fold_written(payload),
            Event::WorkspaceUpdated(payload) => self.fold_file(payload),
            Event::MemoryCompacted(_) | Event::MemoryConsolidated(_) => {
                self.count_fact(entry.event.node_id());
            }
            Event::ArtifactCreated(payload) => self.fold_artifact(payload),
            Event::ProviderUsage(payload) => {
                self.fold_usage(payload);
                self.account_usage(payload);
                self.fold_told(&entry.event, entry.sequence);
            }
            Event::ModelFallback(payload) => {
                self.fold_fallback(payload);
                self.count_fact(Some(&payload.node_id));
                self.fold_told(&entry.event, entry.sequence);
            }
            Event::AgentInvocationStarted(_)
            | Event::AgentInvocationCompleted(_)
            | Event::AgentPromptResolved(_)
            | Event::PromptComposed(_)
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
            | Event::LogAppended(_) => {
                match &entry.event {
                    Event::AgentToolCalled(_) => self.account_tool_call(),
                    Event::EnvelopeRetryAttempted(_) => self.account_retry(None),
                    _ => {}
                }
                self.count_fact(entry.event.node_id());
                self.fold_told(&entry.event, entry.sequence);
            }
            Event::AgentHandoff(payload) => self.fold_handoff(payload),
            Event::Other(other) => self.fold_other(other),
            Event::ReplayDivergedAtRefusal(payload) => self.fold_diverged_at_refusal(payload),
            Event::Ask(_) | Event::ReplayDiverged(_) => {}
        }
        self.version = entry.sequence + 1;
        self.lifecycle.updated_at = self.lifecycle.updated_at.max(at);
        self.follow_script(entry);
    }

    fn fold_started(&mut self, at: Timestamp) {
        self.lifecycle.start(at);
        for index in 0..self.nodes.len() {
            if self.plan.node(index).incoming.is_empty() {
                self.refresh(index);
            }
        }
    }

    fn fold_ended(
        &mut self,
        status: RunStatus,
        at: Timestamp,
        error: Option<callboard_protocol::Failure>,
    ) {
        self.lifecycle.end(status, at, error);
        self.flow.end();
        self.interrupts.clear();
        self.owed_artifacts.clear();
        self.stops.drain = None;
    }

    fn fold_paused(&mut self, at: Timestamp) {
        self.lifecycle.pause(at);
        self.stops.drain = None;
        self.interrupt(|kind| !kind.waits_for_children());
    }

    fn fold_resumed(&mut self, at: Timestamp) {
        if self.lifecycle.is_paused() {
            self.lifecycle.end_pause(at);
        } else {
            // A takeover: what core computes itself goes on, what others performed has died with them.
            self.interrupt(|kind| !kind.is_pure());
        }
    }

    fn interrupt(&mut self, stops: impl Fn(NodeKind) -> bool) {
        let stopped: Vec<NodeIndex> = self
            .flow
            .active
            .iter()
            .copied()
            .filter(|index| self.nodes[*index].stage == Stage::Active && stops(self.kind(*index)))
            .collect();
        for index in stopped {
            self.nodes[index].stage = Stage::Interrupted;
        }
    }

    fn fold_node_started(&mut self, payload: &NodeStarted, at: Timestamp) {
        let Some(index) = self.plan.index(&payload.node_id) else { return };
        self.reach(index);
        self.fold_agent_started(index);
        self.flow.start(index);
        let state = &mut self.nodes[index];
        state.stage = Stage::Active;
        state.visit = payload.visit;
        state.attempt = payload.attempt;
        state.started_at = Some(at);
        state.ended_at = None;
        if payload.attempt == 0 && self.plan.node(index).kind == NodeKind::Supervisor {
            self.orchestra.turns += 1;
            self.files.turn();
        }
        self.fold_dispatch_started(index);
        let mut evaluation = Evaluation::new(payload.evaluated.as_ref(), self.effort.step);
        let resolved = match evaluation.failure() {
            Some(failure) => Err(failure.clone()),
            None => self.resolve_inputs(index, &mut evaluation),
        };
        if let Err(failure) = &resolved {
            evaluation.fail(failure);
        }
        self.conclude(evaluation);
        (self.nodes[index].inputs, self.nodes[index].unresolved) = match resolved {
            Ok(inputs) => {
                self.values.take(&inputs);
                (inputs, None)
            }
            Err(failure) => (Object::new(), Some(failure)),
        };
        self.fold_named_workers(index);
    }

    /// A node that had ended is reached once more, by a loop or a trigger; what fired it is spent.
    fn reach(&mut self, index: NodeIndex) {
        if self.nodes[index].stage.is_settled() {
            self.reopen(index);
        }
        self.clear_triggers(index);
    }

    fn fold_node_completed(&mut self, payload: &NodeCompleted, at: Timestamp) {
        let Some(index) = self.plan.index(&payload.node_id) else { return };
        for (port, value) in &payload.outputs {
            if self.mask().is_sensitive_output(payload.node_id.as_str(), port) {
                self.values.sensitive.learn(value);
            }
        }
        if matches!(self.kind(index), NodeKind::Identity | NodeKind::Memory) {
            for (port, value) in &payload.outputs {
                self.values.variables.insert(port.clone(), value.clone());
            }
        } else if !payload.outputs.is_empty()
            && self.plan.channel(&payload.node_id.as_str().into()).is_none()
        {
            // A node that shares its id with a channel does not write that channel.
            self.values
                .variables
                .insert(payload.node_id.to_string(), payload.outputs.clone().into());
        }
        // Once as the node's, once as variables.
        self.values.take(&payload.outputs);
        self.values.take(&payload.outputs);
        self.nodes[index].outputs = payload.outputs.clone();
        self.fold_reported_cost(&payload.node_id);
        self.owe_artifact(index);
        self.fold_ruling(index);
        let birth = self.birth.clone();
        let anew = birth.fork.as_ref().and_then(|fork| fork.evaluated.get(&self.version));
        let evaluated = anew.or(payload.evaluated.as_ref());
        self.settle(index, Settled { stage: Stage::Completed, at, evaluated });
    }

    fn fold_node_failed(&mut self, payload: &NodeFailed, at: Timestamp) {
        let Some(index) = self.plan.index(&payload.node_id) else { return };
        // Only a node that must not run at all fails without having started.
        if !self.flow.active.contains(&index) {
            self.reach(index);
        }
        self.interrupts.remove(&index);
        self.flow.failed.push(index);
        self.nodes[index].inputs = Object::new();
        let stage = Stage::Failed(payload.error.clone());
        self.settle(index, Settled { stage, at, evaluated: None });
    }

    fn fold_node_retried(&mut self, payload: &NodeRetried, at: Timestamp) {
        let Some(index) = self.plan.index(&payload.node_id) else { return };
        let state = &mut self.nodes[index];
        state.failures += u32::from(!payload.postponed);
        state.stage = Stage::Retrying { not_before: at.plus_millis(payload.delay_ms) };
        self.account_retry(Some(payload));
    }

    fn settle_as(&mut self, node: &NodeId, stage: Stage, at: Timestamp) {
        if let Some(index) = self.plan.index(node) {
            if stage == Stage::Skipped && self.plan.node(index).node.disabled {
                self.reach(index);
            }
            self.interrupts.remove(&index);
            self.settle(index, Settled { stage, at, evaluated: None });
        }
    }

    fn fold_channel(&mut self, payload: &ChannelWritten, entry: &Entry) {
        let declaration = self.plan.channel(&payload.channel);
        let bounds = match declaration {
            Some(declared) => Bounds {
                ttl_ms: declared.ttl_ms.filter(|_| payload.reducer.keeps_entries()),
                max_size: declared.max_size,
            },
            None => self.writer_bounds(payload.node_id.as_ref()),
        };
        let default = declaration.and_then(|declared| declared.default.as_ref());
        let schema = self.plan.channel_schema(&payload.channel);
        // Folded in place: copying the channel would make each write cost what all before it wrote.
        let channel = self
            .values
            .channels
            .entry(payload.channel.clone())
            .or_insert_with(|| Channel::new(&payload.reducer, default));
        let fold = |channel: &mut Channel| {
            channel.fold(&payload.reducer, bounds, &payload.value, payload.written_at);
        };
        let verdict = declaration.map(|declared| evolution(declared, payload.schema_version));
        let fits = match verdict {
            None | Some(Evolution::Fold) => {
                fold(channel);
                true
            }
            Some(Evolution::FoldIfValid) => {
                let mut folded = channel.clone();
                fold(&mut folded);
                // Counted, and made in any case: whether a written value is folded cannot depend on what was before.
                let work = schema.map_or(0, |schema| schema.work(&folded.value));
                let _ = self.effort.step.spend(work + weight(&folded.value) as u64);
                let is_valid =
                    schema.is_none_or(|schema| schema.violation(&folded.value).is_none());
                if is_valid {
                    *channel = folded;
                }
                is_valid
            }
            Some(Evolution::Breaking) => false,
        };
        if !fits {
            let current = declaration.and_then(|declared| declared.schema_version).unwrap_or(1);
            let event = EventId::of(self.birth.told_id(entry.sequence), entry.sequence);
            let written = payload.schema_version.unwrap_or(1);
            self.stops.fault =
                Some(breaking_change(&payload.channel, current, written, event.as_str()));
            return;
        }
        if declaration.is_some_and(|declared| declared.sensitive) {
            self.values.sensitive.learn(&payload.value);
        }
        self.values.take_value(&payload.value);
        self.count_fact(payload.node_id.as_ref());
        self.fire_triggers(payload, entry.at);
    }

    fn fold_loopback_limit(&mut self, node: &NodeId) {
        let Some(header) = self.plan.index(node) else { return };
        let known = self.plan.loops.iter().position(|known| known.header == header);
        if let Some(known) = known.filter(|known| self.flow.loops[*known].turn != Turn::Closed) {
            self.flow.loops[known].is_cut = true;
            self.close_loop(known);
        }
    }

    /// What this build does not type changes nothing, but a node that states something has now stated it.
    fn fold_other(&mut self, other: &OtherEvent) {
        let index = other.node_id.as_ref().and_then(|node| self.plan.index(node));
        if index.is_some_and(|index| self.plan.node(index).kind == NodeKind::Statement) {
            self.count_fact(other.node_id.as_ref());
        }
    }

    pub(super) fn count_fact(&mut self, node: Option<&NodeId>) {
        if let Some(index) = node.and_then(|node| self.plan.index(node)) {
            self.nodes[index].facts += 1;
        }
    }

    /// The bag that a run opens with: declared defaults, overlaid by what the caller sent.
    pub(super) fn open_variables(&mut self) {
        let plan = self.plan.clone();
        for variable in &plan.definition().variables {
            if let Some(value) = &variable.default_value {
                self.values.variables.insert(variable.name.clone(), value.clone());
            }
        }
        self.values.variables.extend(self.birth.inputs.clone());
        for name in &self.birth.unset {
            self.values.variables.remove(name);
        }
        self.values.taken = weight_of(&self.values.variables);
        for (name, declared) in plan.definition().channels.iter().flatten() {
            self.values
                .channels
                .insert(name.clone(), Channel::new(&declared.reducer, declared.default.as_ref()));
        }
        if plan.has_sensitive {
            let marked: Vec<_> = self
                .values
                .variables
                .iter()
                .filter(|(name, _)| self.mask().is_sensitive_variable(name))
                .map(|(_, value)| value.clone())
                .collect();
            marked.iter().for_each(|value| self.values.sensitive.learn(value));
        }
    }

    /// The bounds that an undeclared channel's writer carries in its own configuration.
    pub(super) fn writer_bounds(&self, node: Option<&NodeId>) -> Bounds {
        let index = node.and_then(|node| self.plan.index(node));
        index.map(|index| self.configured_bounds(index)).unwrap_or_default()
    }

    pub(super) fn configured_bounds(&self, index: NodeIndex) -> Bounds {
        let config = &self.plan.node(index).node.config;
        let number = |key: &str| {
            config.get(key).and_then(serde_json::Value::as_u64).filter(|number| *number > 0)
        };
        Bounds {
            ttl_ms: number("ttlMs"),
            max_size: number("maxSize").and_then(|most| usize::try_from(most).ok()),
        }
    }
}
