//! Events about limits that were reached.

use serde::{Deserialize, Serialize};

use super::budget::{Amount, BudgetDimension};
use crate::{NodeId, Object};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopbackLimit {
    pub node_id: NodeId,
    pub iterations: u32,
    #[serde(default)]
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    pub kind: CapKind,
    pub limit: Amount,
    pub observed: Amount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Tells apart what shares a kind: `dispatch-iterations` counts as `node-executions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Object>,
}

/// Which limit was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapKind {
    NodeExecutions,
    RunDuration,
    LoopIterations,
    /// A model was asked too often for one answer.
    Schema,
    BudgetTokens,
    BudgetCost,
    BudgetToolCalls,
    BudgetRetries,
}

impl CapKind {
    /// Whether the run ends when this is reached; otherwise only the node does.
    pub fn ends_the_run(self) -> bool {
        match self {
            Self::NodeExecutions
            | Self::RunDuration
            | Self::LoopIterations
            | Self::BudgetTokens
            | Self::BudgetCost
            | Self::BudgetToolCalls
            | Self::BudgetRetries => true,
            Self::Schema => false,
        }
    }

    /// The kind of a budget's dimension.
    pub fn of_budget(dimension: BudgetDimension) -> Self {
        match dimension {
            BudgetDimension::Tokens => Self::BudgetTokens,
            BudgetDimension::Cost => Self::BudgetCost,
            BudgetDimension::ToolCalls => Self::BudgetToolCalls,
            BudgetDimension::Retries => Self::BudgetRetries,
        }
    }
}
