//! Keeps what the definition marks sensitive out of every reader's sight.
//!
//! Two nets: values at marked places (a sensitive variable, channel or output port) are masked where
//! they stand, and marked texts that travelled elsewhere are masked wherever they turn up. Whatever is marked or not,
//! no event repeats what looks like a credential in the inputs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest, Sha256};

use callboard_protocol::{
    ChannelWritten, ConversationClosed, ConversationExchanged, ConversationTurn, Event,
    InterruptResolved, NodeCompleted, NodeId, NodeResumed, Object, PortValue, RunCompleted,
    RunStarted, VariableChanged, WorkflowDefinition, hex,
};

use crate::birth::Birth;
use crate::node::NodeKind;
use crate::plan::{Plan, PlanError, PlanNode};
use crate::secrets::{Redactor, credentials_in};

/// What a reader sees in place of a sensitive value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaskingMode {
    Mask,
    Omit,
    Hash,
    Passthrough,
}

impl MaskingMode {
    pub(crate) fn of(definition: &WorkflowDefinition) -> Result<Self, PlanError> {
        let config = definition.metadata.compliance_config.as_ref();
        match config.and_then(|config| config.get("maskingMode")).and_then(Value::as_str) {
            None | Some("mask") => Ok(Self::Mask),
            Some("omit") => Ok(Self::Omit),
            Some("hash") => Ok(Self::Hash),
            Some("passthrough") => Ok(Self::Passthrough),
            Some(other) => Err(PlanError {
                path: "metadata.complianceConfig.maskingMode".into(),
                message: format!("{other:?} must be mask, omit, hash or passthrough"),
            }),
        }
    }
}

/// The protocol's mask.
const REDACTED: &str = "[REDACTED]";
/// Shorter texts are not hunted down: they would redact_credentials out innocent words.
const SHORTEST_TEXT: usize = 8;

/// The sensitive texts that a run has seen, longest first when masking.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sensitive {
    texts: BTreeSet<String>,
    /// What looks like a credential in what the caller gave.
    credentials: Redactor,
}

impl Sensitive {
    pub(crate) fn of(birth: &Birth) -> Self {
        let given = [Some(&birth.inputs), birth.metadata.as_ref(), Some(&birth.configurable)];
        let credentials = credentials_in(given.into_iter().flatten(), &birth.tags);
        Self { texts: BTreeSet::new(), credentials }
    }

    /// Remembers every text inside a sensitive value.
    pub(crate) fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) if text.len() >= SHORTEST_TEXT => {
                self.texts.insert(text.clone());
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.learn(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Masks for one run: its plan says where, its history says what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mask<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sensitive: &'a Sensitive,
}

impl Mask<'_> {
    /// The event's payload as readers may see it, if that differs from what the fold must see.
    pub(crate) fn payload(&self, event: &Event) -> Option<Value> {
        match event.public() {
            Cow::Borrowed(event) => self.masked(event),
            Cow::Owned(public) => Some(self.masked(&public).unwrap_or_else(|| public.payload())),
        }
    }

    /// The same for an event of which readers may see every field.
    fn masked(&self, event: &Event) -> Option<Value> {
        if self.is_off() {
            return self.without_credentials(event);
        }
        let masked = match event {
            Event::RunStarted(payload) => {
                let mut inputs = payload.inputs.clone();
                self.variables(&mut inputs);
                Event::RunStarted(RunStarted { inputs, ..payload.clone() })
            }
            Event::VariableChanged(payload) if self.is_sensitive_variable(&payload.name) => {
                Event::VariableChanged(VariableChanged {
                    previous: payload.previous.as_ref().and_then(|value| self.hide(value)),
                    next: self.hide(&payload.next).unwrap_or(Value::Null),
                    ..payload.clone()
                })
            }
            Event::ChannelWritten(payload)
                if self.is_sensitive_channel(payload.channel.as_str()) =>
            {
                let value = self.hide(&payload.value).unwrap_or(Value::Null);
                Event::ChannelWritten(ChannelWritten { value, ..payload.clone() })
            }
            Event::NodeCompleted(payload) => {
                let mut outputs = payload.outputs.clone();
                self.outputs(payload.node_id.as_str(), &mut outputs);
                Event::NodeCompleted(NodeCompleted { outputs, ..payload.clone() })
            }
            Event::ConversationExchanged(payload) if self.is_confidential(event) => {
                let turn = self.unsaid(&payload.turn);
                Event::ConversationExchanged(ConversationExchanged { turn, ..payload.clone() })
            }
            Event::ConversationClosed(payload) if self.is_confidential(event) => {
                Event::ConversationClosed(ConversationClosed {
                    final_turn: self.unsaid(&payload.final_turn),
                    outcome: self.hide(&payload.outcome).unwrap_or(Value::Null),
                    ..payload.clone()
                })
            }
            Event::InterruptResolved(payload) if self.is_confidential(event) => {
                let resume_value = payload.resume_value.as_ref().and_then(|said| self.hide(said));
                Event::InterruptResolved(InterruptResolved { resume_value, ..payload.clone() })
            }
            Event::NodeResumed(payload) if self.is_confidential(event) => {
                let resume_value = payload.resume_value.as_ref().and_then(|said| self.hide(said));
                Event::NodeResumed(NodeResumed { resume_value, ..payload.clone() })
            }
            Event::RunCompleted(payload) => {
                let mut outputs = payload.outputs.clone();
                self.run_outputs(&mut outputs);
                self.variables(&mut outputs);
                Event::RunCompleted(RunCompleted { outputs, ..payload.clone() })
            }
            other => other.clone(),
        };
        let original = event.payload();
        let mut public = masked.payload();
        self.redact_marked(&mut public);
        self.redact_credentials(&mut public);
        (public != original).then_some(public)
    }

    fn without_credentials(&self, event: &Event) -> Option<Value> {
        if self.sensitive.credentials.is_empty() {
            return None;
        }
        let original = event.payload();
        let mut public = original.clone();
        self.redact_credentials(&mut public);
        (public != original).then_some(public)
    }

    /// The inputs as readers may see them, if the fold must see others.
    pub(crate) fn inputs(&self, inputs: &Object) -> Option<Object> {
        if !self.plan.has_sensitive && self.sensitive.credentials.is_empty() {
            return None;
        }
        let mut public = inputs.clone();
        if self.plan.has_sensitive {
            self.variables(&mut public);
        }
        self.sensitive.credentials.redact_object(&mut public);
        (public != *inputs).then_some(public)
    }

    /// Blots out the credentials of the inputs wherever they stand.
    pub(crate) fn redact_credentials(&self, value: &mut Value) {
        if !self.sensitive.credentials.is_empty() {
            self.sensitive.credentials.redact(value);
        }
    }

    /// Masks marked names in a bag of variables.
    pub(crate) fn variables(&self, bag: &mut Object) {
        let names: Vec<String> =
            bag.keys().filter(|name| self.is_sensitive_variable(name)).cloned().collect();
        for name in names {
            self.replace(bag, &name);
        }
        for (name, value) in bag.iter_mut() {
            if let Value::Object(outputs) = value {
                self.outputs(name, outputs);
            }
        }
    }

    /// Masks marked channels.
    pub(crate) fn channels(&self, bag: &mut Object) {
        let names: Vec<String> =
            bag.keys().filter(|name| self.is_sensitive_channel(name)).cloned().collect();
        for name in names {
            self.replace(bag, &name);
        }
    }

    /// Masks sensitive texts wherever they stand.
    pub(crate) fn redact_marked(&self, value: &mut Value) {
        if self.is_off() || self.sensitive.texts.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                let mut found: Vec<&String> = self
                    .sensitive
                    .texts
                    .iter()
                    .filter(|part| text.contains(part.as_str()))
                    .collect();
                found.sort_by_key(|part| std::cmp::Reverse(part.len()));
                for part in found {
                    *text =
                        text.replace(part.as_str(), &self.stand_in(&Value::String(part.clone())));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_marked(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.redact_marked(field))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(crate) fn is_sensitive_variable(&self, name: &str) -> bool {
        let definition = self.plan.definition();
        let declared =
            definition.variables.iter().any(|variable| variable.sensitive && variable.name == name);
        // The ports of an identity node become variables of the same name.
        declared
            || definition.nodes.iter().any(|node| {
                node.output_sensitivity.as_ref().is_some_and(|ports| ports.get(name) == Some(&true))
            })
    }

    pub(crate) fn is_sensitive_channel(&self, name: &str) -> bool {
        self.plan.channel(&name.into()).is_some_and(|channel| channel.sensitive)
    }

    pub(crate) fn is_sensitive_output(&self, node: &str, port: &str) -> bool {
        let index = self.plan.index(&node.into());
        let marked = index.is_some_and(|index| self.shows_sensitive(self.plan.node(index), port));
        marked || self.is_sensitive_variable(port)
    }

    /// Whether the event is about a conversation whose turns go into a sensitive channel.
    fn is_confidential(&self, event: &Event) -> bool {
        let index = event.node_id().and_then(|node| self.plan.index(node));
        index.is_some_and(|index| self.talks_in_secret(self.plan.node(index)))
    }

    fn talks_in_secret(&self, node: &PlanNode) -> bool {
        let channel = node.talk.as_ref().and_then(|talk| talk.channel.as_ref());
        channel.is_some_and(|channel| self.is_sensitive_channel(channel.as_str()))
    }

    fn unsaid(&self, turn: &ConversationTurn) -> ConversationTurn {
        let content = self.hide(&turn.content).unwrap_or(Value::Null);
        ConversationTurn { content, ..turn.clone() }
    }

    /// Whether a node marks the port, or sets or gets something sensitive and shows it there.
    fn shows_sensitive(&self, node: &PlanNode, port: &str) -> bool {
        let marks = node.node.output_sensitivity.as_ref();
        if marks.is_some_and(|ports| ports.get(port) == Some(&true)) {
            return true;
        }
        if matches!(port, "answers" | "outcome") && self.talks_in_secret(node) {
            return true;
        }
        let names_it = matches!(node.kind, NodeKind::SetVariable | NodeKind::GetVariable);
        let config = &node.node.config;
        let name =
            config.get("name").or_else(|| config.get("variableName")).and_then(Value::as_str);
        names_it
            && port == "value"
            && name.is_some_and(|name| {
                self.is_sensitive_variable(name) || self.is_sensitive_channel(name)
            })
    }

    fn outputs(&self, node: &str, outputs: &mut Object) {
        let ports: Vec<String> =
            outputs.keys().filter(|port| self.is_sensitive_output(node, port)).cloned().collect();
        for port in ports {
            self.replace(outputs, &port);
        }
    }

    /// A run's outputs come from several nodes: a port that one of them hides is hidden.
    fn run_outputs(&self, outputs: &mut Object) {
        let hides =
            |port: &str| self.plan.nodes().iter().any(|node| self.shows_sensitive(node, port));
        let ports: Vec<String> = outputs.keys().filter(|port| hides(port)).cloned().collect();
        for port in ports {
            self.replace(outputs, &port);
        }
    }

    fn replace(&self, bag: &mut Object, name: &str) {
        let Some(value) = bag.get(name) else { return };
        match self.hide(value) {
            Some(mask) => bag.insert(name.to_owned(), mask),
            None => bag.remove(name),
        };
    }

    /// What stands for a hidden value; none where the mode leaves it out.
    pub(crate) fn hide(&self, value: &Value) -> Option<Value> {
        match self.plan.masking {
            MaskingMode::Passthrough => Some(value.clone()),
            MaskingMode::Omit => None,
            MaskingMode::Mask | MaskingMode::Hash => Some(Value::String(self.stand_in(value))),
        }
    }

    fn stand_in(&self, value: &Value) -> String {
        if self.plan.masking == MaskingMode::Hash { hash(value) } else { REDACTED.to_owned() }
    }

    fn is_off(&self) -> bool {
        !self.plan.has_sensitive || self.plan.masking == MaskingMode::Passthrough
    }
}

/// What a node reads or writes that the definition marks sensitive, by name.
pub(crate) fn sensitive_fields(plan: &Plan, node: &NodeId) -> Vec<String> {
    let Some(index) = plan.index(node).filter(|_| plan.has_sensitive) else { return Vec::new() };
    let node = &plan.node(index).node;
    let nothing = Sensitive::default();
    let mask = Mask { plan, sensitive: &nothing };
    let mut fields = BTreeSet::new();
    let mut names: Vec<&str> = ["name", "variableName", "channel", "channelName"]
        .into_iter()
        .filter_map(|key| node.config.get(key).and_then(Value::as_str))
        .collect();
    for value in node.inputs.values() {
        match value {
            PortValue::Variable { variable_name, .. } => names.push(variable_name),
            PortValue::Connection { node_id, output_key, .. }
                if mask.is_sensitive_output(node_id.as_str(), output_key) =>
            {
                fields.insert(format!("outputs.{node_id}.{output_key}"));
            }
            PortValue::Connection { .. }
            | PortValue::Static { .. }
            | PortValue::Expression { .. } => {}
        }
    }
    for name in names {
        if mask.is_sensitive_variable(name) {
            fields.insert(format!("variables.{name}"));
        }
        if mask.is_sensitive_channel(name) {
            fields.insert(format!("channels.{name}"));
        }
    }
    let marked = node.output_sensitivity.iter().flatten().filter(|(_, is_marked)| **is_marked);
    fields.extend(marked.map(|(port, _)| format!("outputs.{port}")));
    fields.into_iter().collect()
}

fn hash(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let digest = Sha256::digest(text.as_bytes());
    let hex = hex(digest);
    format!("sha256:{hex}")
}
