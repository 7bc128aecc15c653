//! Agents that perform nodes: their facts, who works on the run, and when control passes between two of them.

use callboard_protocol::{AgentHandoff, AgentRef, Event, NodeId, Object};
use serde_json::Value;

use super::Run;
use super::fact::FactWriter;
use super::inputs::named_ports;
use crate::birth::{AgentPin, TaskSource};
use crate::graph::NodeIndex;

impl Run {
    /// The agent that performs a node of this run.
    pub(super) fn pin(&self, index: NodeIndex) -> Option<&AgentPin> {
        self.birth.agents.get(&self.plan.node(index).node.id)
    }

    /// The inputs of a performed node. An agent's task is what its ports name; where they name nothing, it is
    /// what arrives.
    pub(super) fn performed_inputs(&self, index: NodeIndex) -> Object {
        let inputs = &self.nodes[index].inputs;
        let Some(pin) = self.pin(index) else { return inputs.clone() };
        if pin.task == TaskSource::Inputs {
            return self.birth.inputs.clone();
        }
        let named = named_ports(self, index);
        match inputs.get("input") {
            Some(Value::Object(arrived)) if named.is_empty() => arrived.clone(),
            _ => {
                let of_a_name = |(port, _): &(&String, &Value)| named.contains(port);
                let fields = inputs.iter().filter(of_a_name);
                fields.map(|(port, value)| (port.clone(), value.clone())).collect()
            }
        }
    }

    /// Knows what was recorded of this node before, and makes events of what is new.
    pub(super) fn fact_writer(&self, index: NodeIndex) -> FactWriter<'_> {
        let state = &self.nodes[index];
        FactWriter {
            run: self.told_id(),
            node: self.node_id(index),
            agent: self.pin(index).map(|pin| pin.agent_id.clone()),
            invocations: state.invocations,
            recorded: state.recorded.clone(),
        }
    }

    /// What is still to be recorded of a node's agent before the node is ended in its place.
    pub(super) fn loose_end(&self, index: NodeIndex) -> Option<Event> {
        self.fact_writer(index).loose_end()
    }

    /// Notes what was recorded of an agent.
    pub(super) fn fold_told(&mut self, event: &Event, sequence: u64) {
        let index = event.node_id().and_then(|node| self.plan.index(node));
        let Some(index) = index else { return };
        let state = &mut self.nodes[index];
        state.invocations += u32::from(matches!(event, Event::AgentInvocationStarted(_)));
        state.recorded.fold(event, sequence);
    }

    /// Where a tool was called that has now returned.
    pub(super) fn tool_called_at(&self, node: Option<&NodeId>, call_id: &str) -> Option<u64> {
        let index = node.and_then(|node| self.plan.index(node))?;
        self.nodes[index].recorded.called(call_id)
    }

    /// Notes which agent works now, and that another did before.
    pub(super) fn fold_agent_started(&mut self, index: NodeIndex) {
        if self.plan.node(index).node.agent.is_none() && self.pin(index).is_none() {
            return;
        }
        let before = self.agent_at.replace(index);
        let agent_of = |index: NodeIndex| self.pin(index).map(|pin| &pin.agent_id);
        if let Some(before) = before
            && agent_of(before).is_some()
            && agent_of(index).is_some()
            && agent_of(before) != agent_of(index)
        {
            self.owed_handoff = Some((before, index));
        }
    }

    pub(super) fn next_handoff(&self) -> Option<Event> {
        let (from, to) = self.owed_handoff?;
        Some(Event::AgentHandoff(AgentHandoff {
            node_id: Some(self.node_id(to)),
            from_agent_id: self.pin(from)?.agent_id.clone(),
            to_agent_id: self.pin(to)?.agent_id.clone(),
            reason: None,
        }))
    }

    /// What the run itself owes is recorded here; what an agent says of itself is one of its facts.
    pub(super) fn fold_handoff(&mut self, payload: &AgentHandoff) {
        if self.owed_handoff.take().is_none() {
            self.count_fact(payload.node_id.as_ref());
        }
    }

    /// Who works on the run, or did last, or will first.
    pub(super) fn shown_agent(&self) -> Option<AgentRef> {
        let named = |index: &NodeIndex| {
            self.plan.node(*index).node.agent.is_some() || self.pin(*index).is_some()
        };
        let index = self.agent_at.or_else(|| (0..self.nodes.len()).find(named))?;
        let asked = self.plan.node(index).node.agent.clone();
        let Some(pin) = self.pin(index) else { return asked };
        if pin.persona.is_some() {
            return Some(acting(pin));
        }
        let asked = asked.unwrap_or_else(|| AgentRef {
            agent_id: pin.agent_id.clone(),
            name: None,
            model_class: None,
            memory_ref: None,
            version: None,
            channel: None,
            source_manifest_id: None,
        });
        // A reference names a version or the channel that led to it, never both.
        let version = pin.channel.is_none().then(|| pin.version.clone());
        let source_manifest_id = asked.source_manifest_id.or_else(|| Some(pin.agent_id.clone()));
        Some(AgentRef { version, channel: pin.channel.clone(), source_manifest_id, ..asked })
    }
}

/// An agent that works as a standing member: under the member's name, and still the agent that it is.
fn acting(pin: &AgentPin) -> AgentRef {
    AgentRef {
        agent_id: pin.agent_id.clone(),
        name: pin.persona.clone(),
        model_class: None,
        memory_ref: None,
        version: None,
        channel: None,
        source_manifest_id: Some(pin.agent_id.clone()),
    }
}
