//! The nodes that core computes itself. Each is a function of its inputs and the state, one event at a time.

use serde_json::{Value, json};

use callboard_protocol::{
    EdgeCondition, Event, Failure, Object, OtherEvent, Reducer, Timestamp, VariableChanged,
};

use super::command::RetryClass;
use super::inputs::{named_ports, quoted};
use super::{Run, Stage};
use crate::bounds::weigh;
use crate::channel::invalid;
use crate::expression::{evaluate, holds, is_true};
use crate::graph::NodeIndex;
use crate::node::{DELAY_KEYS, NodeKind};
use crate::work::Work;

/// The longest delay that a node may ask for: a year.
const MAX_DELAY_MS: u64 = 31_536_000_000;
/// What `core.fail` says when its configuration does not.
const DEFAULT_FAILURE: (&str, &str) =
    ("conformance_test_failure", "Intentional conformance failure");

impl Run {
    /// The next event of an active node that core computes; none for others and for delays that last.
    pub(super) fn step(&self, index: NodeIndex, at: Timestamp, work: &mut Work) -> Option<Event> {
        let state = &self.nodes[index];
        if !matches!(state.stage, Stage::Active | Stage::Suspended) {
            return None;
        }
        if let Some(failure) = &state.unresolved {
            return Some(self.failed_or_retried(index, failure.clone(), RetryClass::Final));
        }
        let step = match self.kind(index) {
            NodeKind::Activity | NodeKind::Memory | NodeKind::Upkeep => {
                return self.activity_step(index, at);
            }
            NodeKind::Noop | NodeKind::CostEmit | NodeKind::RequiresMissing => {
                Ok(Step::Done(Object::new()))
            }
            NodeKind::Pass => Ok(Step::Done(state.inputs.clone())),
            NodeKind::Identity => self.identity(index, at, work),
            NodeKind::Delay => self.delay(index, Object::new(), at),
            NodeKind::Hold => self.delay(index, state.inputs.clone(), at),
            NodeKind::Wait => self.wait(index, at),
            NodeKind::Pure(pure) => self.compute(index, pure, at, work).map(Step::Done),
            NodeKind::Log => self.log(index),
            NodeKind::Fail => return Some(self.intended_failure(index)),
            NodeKind::SetVariable => self.set_variable(index),
            NodeKind::GetVariable => self.get_variable(index),
            NodeKind::Conditional => self.conditional(index, work),
            NodeKind::Loop => Ok(Step::Done(self.loop_round(index))),
            NodeKind::ChannelWrite => self.write_channel(index, at, work),
            NodeKind::Gate => self.gate(index, at),
            NodeKind::Talk => self.converse(index, at, work),
            NodeKind::Child => self.child_step(index, at),
            NodeKind::Supervisor => self.supervise(index, at),
            NodeKind::Dispatch => self.dispatch(index, at),
            NodeKind::Each => self.each(index, at, work),
            NodeKind::Invoke => self.invoke(index),
            NodeKind::MockAgent => self.mock_agent(index, at),
            NodeKind::Statement => Ok(self.statement(index)),
        };
        match step {
            Ok(Step::Emit(Event::VariableChanged(change))) => Some(self.changed(index, change)),
            Ok(Step::Emit(event)) => Some(event),
            Ok(Step::Wait) => None,
            Ok(Step::Done(outputs)) => Some(self.completed(index, outputs, at)),
            Err(failure) => Some(self.failed_or_retried(index, failure, RetryClass::Final)),
        }
    }

    fn changed(&self, index: NodeIndex, change: VariableChanged) -> Event {
        match weigh(&change.next).and_then(|weight| self.has_room(weight)) {
            Ok(()) => Event::VariableChanged(change),
            Err(failure) => self.failed_or_retried(index, failure, RetryClass::Final),
        }
    }

    /// When an active delay ends.
    pub(super) fn delay_ends(&self, index: NodeIndex) -> Result<Timestamp, Failure> {
        let state = &self.nodes[index];
        let config = &self.plan.node(index).node.config;
        let asked = state
            .inputs
            .get("delayMs")
            .or_else(|| DELAY_KEYS.into_iter().find_map(|key| config.get(key)));
        let delay = match asked {
            None => 0,
            Some(asked) => {
                whole_millis(asked).filter(|delay| *delay <= MAX_DELAY_MS).ok_or_else(|| {
                    Failure::new(
                        "validation_error",
                        format!("a delay must be 0 to {MAX_DELAY_MS} ms, not {asked}"),
                    )
                })?
            }
        };
        Ok(state.started_at.unwrap_or_default().plus_millis(delay))
    }

    fn delay(&self, index: NodeIndex, outputs: Object, at: Timestamp) -> Result<Step, Failure> {
        Ok(if at < self.delay_ends(index)? { Step::Wait } else { Step::Done(outputs) })
    }

    fn identity(&self, index: NodeIndex, at: Timestamp, work: &mut Work) -> Result<Step, Failure> {
        let node = &self.plan.node(index).node;
        if node.config.get("emitDuplicateMessageId") == Some(&Value::Bool(true))
            && self.nodes[index].facts < 2
        {
            return self.duplicate_message(index, at, work);
        }
        let state = &self.nodes[index];
        let mut outputs = Object::new();
        for port in named_ports(self, index) {
            self.refuse_channel(&port)?;
            if let Some(value) = state.inputs.get(&port) {
                outputs.insert(port, value.clone());
            }
        }
        Ok(Step::Done(outputs))
    }

    /// The conformance probe of the `message` reducer: the same message, twice.
    fn duplicate_message(
        &self,
        index: NodeIndex,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Step, Failure> {
        let declared = self.plan.definition().channels.iter().flatten();
        let channel = declared
            .filter(|(_, channel)| channel.reducer == Reducer::Message)
            .map(|(name, _)| name)
            .next();
        let Some(channel) = channel else {
            return Err(Failure::new(
                "validation_error",
                "emitDuplicateMessageId needs a channel with the message reducer",
            ));
        };
        let value = json!({ "messageId": format!("{}:{}", self.told_id(), self.node_id(index)), "role": "agent", "content": "probe" });
        self.write(index, channel, value, at, work)
    }

    /// The event of a node's configuration, once.
    fn statement(&self, index: NodeIndex) -> Step {
        let config = &self.plan.node(index).node.config;
        match config.get("type").and_then(Value::as_str) {
            Some(kind) if self.nodes[index].facts == 0 => Step::Emit(Event::Other(OtherEvent {
                kind: kind.to_owned(),
                node_id: Some(self.node_id(index)),
                payload: config.get("payload").cloned().unwrap_or_default(),
            })),
            _ => Step::Done(Object::new()),
        }
    }

    fn intended_failure(&self, index: NodeIndex) -> Event {
        let config = &self.plan.node(index).node.config;
        let text = |key: &str, default: &str| {
            // The protocol's error object has no room for empty texts.
            let said = config.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            said.unwrap_or(default).to_owned()
        };
        let failure =
            Failure::new(text("code", DEFAULT_FAILURE.0), text("message", DEFAULT_FAILURE.1));
        let retryable = config.get("retryable") == Some(&Value::Bool(true));
        let class = if retryable { RetryClass::Retryable } else { RetryClass::Final };
        self.failed_or_retried(index, failure, class)
    }

    fn set_variable(&self, index: NodeIndex) -> Result<Step, Failure> {
        let name = self.configured_name(index)?;
        self.refuse_channel(&name)?;
        if self.nodes[index].facts > 0 {
            // What was written counts: an attempt that starts afresh may find other values at its ports.
            let value = self.values.variables.get(&name).cloned().unwrap_or(Value::Null);
            return Ok(Step::Done(Object::from_iter([("value".to_owned(), value)])));
        }
        let value = self.given(index, "value").cloned().unwrap_or(Value::Null);
        Ok(Step::Emit(Event::VariableChanged(VariableChanged {
            previous: self.values.variables.get(&name).cloned(),
            name,
            next: value,
            node_id: Some(self.node_id(index)),
        })))
    }

    fn get_variable(&self, index: NodeIndex) -> Result<Step, Failure> {
        let name = self.configured_name(index)?;
        let value = self.read_variable(index, &name)?.unwrap_or(Value::Null);
        Ok(Step::Done(Object::from_iter([("value".to_owned(), value)])))
    }

    fn conditional(&self, index: NodeIndex, work: &mut Work) -> Result<Step, Failure> {
        let state = &self.nodes[index];
        let result = match self.given(index, "condition") {
            Some(Value::String(expression)) => {
                let mut names = self.names();
                names.extend(&state.inputs);
                is_true(&evaluate(expression, &names, work)?)
            }
            Some(Value::Object(condition)) => {
                let condition: EdgeCondition =
                    serde_json::from_value(Value::Object(condition.clone())).map_err(|error| {
                        Failure::new("validation_error", format!("config.condition: {error}"))
                    })?;
                holds(&condition, &state.inputs, || self.names(), work)?
            }
            Some(value) => is_true(value),
            None => {
                let message = format!("{} needs config.condition", quoted(&self.node_id(index)));
                return Err(Failure::new("validation_error", message));
            }
        };
        Ok(Step::Done(Object::from_iter([("result".to_owned(), result.into())])))
    }

    /// One round of a loop: its item and index.
    fn loop_round(&self, index: NodeIndex) -> Object {
        let round = self.plan.loops.iter().position(|known| known.header == index);
        let round = round.map_or(0, |known| self.flow.loops[known].iterations);
        let mut outputs = Object::new();
        if self.loop_length(index) == 0 {
            return outputs;
        }
        if let Some(Value::Array(items)) = self.given(index, "items") {
            let item = usize::try_from(round).ok().and_then(|round| items.get(round));
            outputs.insert("item".into(), item.cloned().unwrap_or(Value::Null));
        }
        outputs.insert("index".into(), round.into());
        outputs
    }

    /// A port's value, else the configuration's.
    pub(super) fn given(&self, index: NodeIndex, key: &str) -> Option<&Value> {
        self.nodes[index].inputs.get(key).or_else(|| self.plan.node(index).node.config.get(key))
    }

    fn configured_name(&self, index: NodeIndex) -> Result<String, Failure> {
        let config = &self.plan.node(index).node.config;
        let name =
            config.get("name").or_else(|| config.get("variableName")).and_then(Value::as_str);
        name.filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(|| {
            Failure::new(
                "validation_error",
                format!("{} needs config.name", quoted(&self.node_id(index))),
            )
        })
    }

    /// A declared channel is written through `core.channelWrite` alone.
    fn refuse_channel(&self, name: &str) -> Result<(), Failure> {
        let channel = name.into();
        match self.plan.channel(&channel) {
            Some(_) => Err(invalid(
                &channel,
                format!("{name} is a channel; write to it through core.channelWrite"),
            )),
            None => Ok(()),
        }
    }
}

/// What a pure node does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Record something first.
    Emit(Event),
    /// Time has to pass.
    Wait,
    Done(Object),
}

fn whole_millis(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "finite, not negative, and saturating"
        )]
        Some(number as u64)
    })
}
