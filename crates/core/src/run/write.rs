//! Writes into a run's state: by its nodes into channels, and from outside into channels and variables.

use serde_json::Value;

use callboard_protocol::{
    ChannelAccess, ChannelDeclaration, ChannelName, ChannelWritten, Event, Failure, Object,
    Reducer, RunId, Timestamp, VariableChanged,
};

use super::Run;
use super::command::Refusal;
use super::inputs::quoted;
use super::perform::Step;
use crate::bounds::{weigh, weight};
use crate::channel::{Bounds, Channel, Side, check_access, check_write, invalid};
use crate::graph::NodeIndex;
use crate::work::Work;

/// A write into a channel that no node of the run makes.
#[derive(Debug, Clone, PartialEq)]
pub struct OutsideWrite {
    pub channel: ChannelName,
    pub value: Value,
    /// The engine that writes, where it says so.
    pub source_engine_id: Option<String>,
    /// The run that writes, where one does.
    pub source_run_id: Option<RunId>,
}

impl Run {
    pub(super) fn write_channel(
        &self,
        index: NodeIndex,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Step, Failure> {
        let name = self
            .given(index, "channelName")
            .or_else(|| self.given(index, "channel"))
            .and_then(Value::as_str);
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
            Failure::new(
                "validation_error",
                format!("{} needs config.channelName", quoted(&self.node_id(index))),
            )
        })?;
        if self.nodes[index].facts > 0 {
            return Ok(Step::Done(Object::new()));
        }
        let value = self.given(index, "value").cloned().unwrap_or(Value::Null);
        self.write(index, &name.into(), value, at, work)
    }

    pub(super) fn write(
        &self,
        index: NodeIndex,
        channel: &ChannelName,
        value: Value,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Step, Failure> {
        let node = &self.plan.node(index).node;
        let (reducer, bounds, schema_version) = match self.plan.channel(channel) {
            Some(declared) => {
                check_access(channel, declared, Side::Writers, &node.id, &node.type_id)?;
                (declared.reducer.clone(), bounds_of(declared), version_of(declared))
            }
            None => {
                let named = node.config.get("reducer").and_then(Value::as_str).unwrap_or("append");
                (Reducer::from(named.to_owned()), self.configured_bounds(index), 1)
            }
        };
        if !reducer.is_well_named() {
            return Err(invalid(channel, format!("unknown reducer {:?}", String::from(reducer))));
        }
        self.check_fold(channel, &reducer, bounds, &value, at, work)?;
        Ok(Step::Emit(Event::ChannelWritten(ChannelWritten {
            channel: channel.clone(),
            value,
            reducer,
            written_at: at,
            node_id: Some(node.id.clone()),
            schema_version: Some(schema_version),
            source_engine_id: None,
            source_run_id: None,
        })))
    }

    /// Whether the value suits the reducer, and what it comes to the channel's schema.
    fn check_fold(
        &self,
        channel: &ChannelName,
        reducer: &Reducer,
        bounds: Bounds,
        value: &Value,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<(), Failure> {
        check_write(channel, reducer, bounds, value)?;
        self.has_room(weigh(value)?)?;
        let Some(schema) = self.plan.channel_schema(channel) else { return Ok(()) };
        let current = self.values.channels.get(channel).cloned();
        let mut folded = current.unwrap_or_else(|| Channel::new(reducer, None));
        folded.fold(reducer, bounds, value, at);
        work.spend(weight(&folded.value) as u64)?;
        work.spend(schema.work(&folded.value))?;
        match schema.violation(&folded.value) {
            Some(violation) => Err(invalid(
                channel,
                format!("channel {channel} would not match its schema: {violation}"),
            )),
            None => Ok(()),
        }
    }

    /// Takes a write from outside, where the order of such writes cannot matter.
    pub(super) fn on_write(
        &self,
        write: &OutsideWrite,
        at: Timestamp,
    ) -> Result<Vec<Event>, Refusal> {
        let channel = &write.channel;
        let declared = self.plan.channel(channel);
        let declared = declared.ok_or(Refusal::UnknownChannel { channel: channel.clone() })?;
        let reducer = declared.reducer.clone();
        if !takes_from_outside(&reducer) {
            return Err(Refusal::ForeignWrite {
                channel: channel.clone(),
                reducer: reducer.into(),
                source_engine_id: write.source_engine_id.clone(),
                source_run_id: write.source_run_id.clone(),
            });
        }
        // The lists name nodes and their types; a caller from outside is neither.
        let is_open = match &declared.access {
            None | Some(ChannelAccess::Public) => true,
            Some(ChannelAccess::Private) => false,
            Some(ChannelAccess::Lists { writers, .. }) => writers.is_none(),
        };
        if !is_open {
            return Err(Refusal::NotAWriter {
                channel: channel.clone(),
                source_engine_id: write.source_engine_id.clone(),
                source_run_id: write.source_run_id.clone(),
            });
        }
        let bounds = bounds_of(declared);
        self.check_fold(channel, &reducer, bounds, &write.value, at, &mut Work::default())
            .map_err(|failure| Refusal::InvalidWrite {
                channel: channel.clone(),
                why: failure.message,
            })?;
        let mut events = self.opening();
        events.push(Event::ChannelWritten(ChannelWritten {
            channel: channel.clone(),
            value: write.value.clone(),
            reducer,
            written_at: at,
            // What a node of this run writes names the node; this distinguishes the two.
            node_id: None,
            schema_version: Some(version_of(declared)),
            source_engine_id: write.source_engine_id.clone(),
            source_run_id: write.source_run_id.clone(),
        }));
        Ok(events)
    }

    /// Sets variables, as no node of the run does.
    pub(super) fn on_set_variables(&self, variables: &Object) -> Result<Vec<Event>, Refusal> {
        let is_channel = |name: &&String| self.plan.channel(&name.as_str().into()).is_some();
        if let Some(name) = variables.keys().find(is_channel) {
            return Err(Refusal::NotAVariable { name: name.clone() });
        }
        let mut events = self.opening();
        events.extend(variables.iter().map(|(name, next)| {
            Event::VariableChanged(VariableChanged {
                name: name.clone(),
                previous: self.values.variables.get(name).cloned(),
                next: next.clone(),
                node_id: None,
            })
        }));
        Ok(events)
    }
}

/// Whether concurrent writes come to the same in every order, or keep all of what was written.
fn takes_from_outside(reducer: &Reducer) -> bool {
    match reducer {
        Reducer::Append
        | Reducer::Counter
        | Reducer::Votes
        | Reducer::Feedback
        | Reducer::Message => true,
        // Nobody here knows what a vendor's reducer does with them.
        Reducer::Replace | Reducer::Merge | Reducer::Vendor(_) => false,
    }
}

fn bounds_of(declared: &ChannelDeclaration) -> Bounds {
    Bounds { ttl_ms: declared.ttl_ms, max_size: declared.max_size }
}

fn version_of(declared: &ChannelDeclaration) -> u32 {
    declared.schema_version.unwrap_or(1)
}
