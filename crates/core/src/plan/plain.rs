//! Plans over which every step is short, whatever a caller sends.

use serde_json::Value;

use callboard_protocol::PortValue;

use super::{Plan, PlanNode};
use crate::node::NodeKind;

/// More than most people draw; a step looks at each of them a few times at most.
const MOST_NODES: usize = 256;
/// Four for each node.
const MOST_EDGES: usize = 1024;
/// Texts up to this length are copied in less time than a hand-over to another thread takes.
const LONGEST_TEXT: usize = 1024;

impl Plan {
    /// Whether steps over this plan are short by construction: a bounded number of nodes that pass on what they were
    /// given, in no loop, and nothing that is evaluated: no expression, no condition, no schema. A kind of node that
    /// is not named here counts as long, so that what is added later is not trusted by mistake.
    pub fn is_plain(&self) -> bool {
        self.nodes.len() <= MOST_NODES
            && self.edges.len() <= MOST_EDGES
            && self.loops.is_empty()
            && self.triggers.is_empty()
            && self.channel_schemas.is_empty()
            && !self.has_sensitive
            && self.edges.iter().all(|edge| edge.edge.condition.is_none())
            && self.nodes.iter().all(is_short)
    }
}

fn is_short(node: &PlanNode) -> bool {
    let passes_on = match node.kind {
        NodeKind::Pure(pure) => pure.is_short(&node.node.config),
        kind => matches!(
            kind,
            NodeKind::Pass
                | NodeKind::Noop
                | NodeKind::Identity
                | NodeKind::Delay
                | NodeKind::Hold
                | NodeKind::Fail
                | NodeKind::Wait
        ),
    };
    passes_on && node.node.agent.is_none() && node.node.inputs.values().all(is_small)
}

fn is_small(value: &PortValue) -> bool {
    match value {
        PortValue::Expression { .. } => false,
        PortValue::Static { value: Value::String(text) } => text.len() <= LONGEST_TEXT,
        PortValue::Static { value } => !value.is_array() && !value.is_object(),
        PortValue::Connection { .. } | PortValue::Variable { .. } => true,
    }
}
