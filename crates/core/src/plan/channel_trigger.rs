//! Nodes that a write to a channel starts.

use std::collections::BTreeSet;

use serde_json::Value;

use callboard_protocol::{ChannelName, TriggerType, WorkflowTrigger};

use super::{Plan, PlanError, error};
use crate::graph::NodeIndex;

/// The longest debounce, as the protocol bounds it.
const MAX_DEBOUNCE_MS: u64 = 60_000;

/// A `channel-write` trigger: a write to the channel starts the node.
#[derive(Debug)]
pub(crate) struct ChannelTrigger {
    pub(crate) channel: ChannelName,
    pub(crate) node: NodeIndex,
    pub(crate) origin: WriteOrigin,
    pub(crate) debounce_ms: u64,
    /// The node and all that follows it: their own writes do not fire it again.
    pub(crate) lineage: BTreeSet<NodeIndex>,
}

/// Whose writes a trigger listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOrigin {
    Any,
    Child,
    /// The protocol calls it `parent`: the run that owns the channel.
    Own,
}

impl Plan {
    pub(super) fn channel_triggers(&self) -> Result<Vec<ChannelTrigger>, PlanError> {
        let listed = self.definition.triggers.iter().enumerate();
        listed
            .filter(|(_, trigger)| trigger.kind == TriggerType::ChannelWrite && trigger.enabled)
            .map(|(index, trigger)| self.channel_trigger(&format!("triggers[{index}]"), trigger))
            .collect()
    }

    fn channel_trigger(
        &self,
        path: &str,
        trigger: &WorkflowTrigger,
    ) -> Result<ChannelTrigger, PlanError> {
        let said = |key: &str| trigger.config.as_ref().and_then(|config| config.get(key));
        let channel = said("channel").and_then(Value::as_str);
        let channel =
            channel.ok_or_else(|| error(path, "config.channel must name a channel".into()))?;
        let node = trigger.node_id.as_ref().and_then(|id| self.index(id));
        let node =
            node.ok_or_else(|| error(path, "nodeId must name a node of this workflow".into()))?;
        let origin = match said("onlyFrom").and_then(Value::as_str) {
            None | Some("any") => WriteOrigin::Any,
            Some("child") => WriteOrigin::Child,
            Some("parent") => WriteOrigin::Own,
            Some(other) => {
                let message = format!("onlyFrom {other:?} must be any, child or parent");
                return Err(error(path, message));
            }
        };
        let debounce = said("debounceMs").map_or(Some(0), Value::as_u64);
        let debounce_ms = debounce
            .filter(|millis| *millis <= MAX_DEBOUNCE_MS)
            .ok_or_else(|| error(path, format!("debounceMs must be 0 to {MAX_DEBOUNCE_MS}")))?;
        let lineage = self.downstream(node);
        Ok(ChannelTrigger { channel: channel.into(), node, origin, debounce_ms, lineage })
    }
}
