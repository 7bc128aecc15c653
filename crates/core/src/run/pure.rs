//! The published node types that core computes: functions of configuration and inputs, a wait, a line of the log.

use serde_json::Value;

use callboard_protocol::{Event, Failure, LogAppended, Object, Timestamp};

use super::Run;
use super::perform::Step;
use crate::bounds::weigh_fields;
use crate::graph::NodeIndex;
use crate::node::{Given, Meter, PureNode, read_time};
use crate::work::Work;

/// The longest that `core.flow.wait` may wait, in seconds: a day.
const LONGEST_WAIT_SECONDS: u64 = 86_400;
const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

impl Run {
    pub(super) fn compute(
        &self,
        index: NodeIndex,
        pure: PureNode,
        at: Timestamp,
        work: &mut Work,
    ) -> Result<Object, Failure> {
        let state = &self.nodes[index];
        let name = || {
            let (run, node) = (self.told_id(), self.node_id(index));
            format!("{run}\n{node}\n{}\n{}", state.visit, state.attempt)
        };
        let config = &self.plan.node(index).node.config;
        let given = Given { config, inputs: &state.inputs, at, name: &name };
        pure.compute(&given, &mut Meter::new(work))
    }

    pub(super) fn wait(&self, index: NodeIndex, at: Timestamp) -> Result<Step, Failure> {
        let is_over = self.wait_ends(index)? <= at;
        let resumed = || Object::from_iter([("resumed".to_owned(), Value::Bool(true))]);
        Ok(if is_over { Step::Done(resumed()) } else { Step::Wait })
    }

    /// When an active `core.flow.wait` ends.
    pub(super) fn wait_ends(&self, index: NodeIndex) -> Result<Timestamp, Failure> {
        let config = &self.plan.node(index).node.config;
        let invalid = |why: &str| Failure::new("validation_error", why);
        match config.get("mode").and_then(Value::as_str) {
            Some("duration") => {
                let seconds = config.get("seconds").and_then(Value::as_u64);
                let seconds =
                    seconds.filter(|it| *it <= LONGEST_WAIT_SECONDS).ok_or_else(|| {
                        invalid("config.seconds must be a whole number from 0 to 86400")
                    })?;
                let started = self.nodes[index].started_at.unwrap_or_default();
                Ok(started.plus_millis(seconds * 1_000))
            }
            Some("until") => {
                let until = config.get("timestamp").and_then(read_time);
                let until = until.ok_or_else(|| {
                    invalid("config.timestamp must be a time as RFC 3339 writes it")
                })?;
                Ok(Timestamp::from_millis(until))
            }
            Some("webhook") => Err(invalid(
                "config.mode webhook does not run here; core.interrupt with the kind external-event waits for a call \
                 from outside",
            )),
            _ => Err(invalid("config.mode must be duration or until")),
        }
    }

    /// Records its line once, then completes.
    pub(super) fn log(&self, index: NodeIndex) -> Result<Step, Failure> {
        let invalid = |why: &str| Failure::new("validation_error", why);
        let inputs = &self.nodes[index].inputs;
        let message = inputs.get("message").and_then(Value::as_str);
        let message = message.ok_or_else(|| invalid("the input message must be a text"))?;
        let level = match self.given(index, "level") {
            None => "info",
            Some(level) => level
                .as_str()
                .filter(|level| LEVELS.contains(level))
                .ok_or_else(|| invalid("the level must be debug, info, warn or error"))?,
        };
        let fields = match inputs.get("attributes") {
            None => Object::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => return Err(invalid("the input attributes must be an object")),
        };
        if self.nodes[index].facts > 0 {
            let outputs =
                [("emitted", true.into()), ("level", level.into()), ("message", message.into())];
            return Ok(Step::Done(
                outputs
                    .into_iter()
                    .map(|(name, value): (&str, Value)| (name.to_owned(), value))
                    .collect(),
            ));
        }
        weigh_fields(&fields)?;
        Ok(Step::Emit(Event::LogAppended(LogAppended {
            node_id: Some(self.node_id(index)),
            level: level.to_owned(),
            message: message.to_owned(),
            fields,
        })))
    }
}
