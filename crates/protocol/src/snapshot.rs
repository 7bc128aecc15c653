//! A run as readers see it at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AgentRef, Failure, FileVersion, NodeId, Object, Owner, ProviderUsage, RunId, Timestamp,
    WorkflowId,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    Pending,
    Running,
    Paused,
    WaitingApproval,
    WaitingInput,
    WaitingExternal,
    Completed,
    Failed,
    Cancelling,
    Cancelled,
}

impl RunStatus {
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::WaitingExternal,
        Self::Completed,
        Self::Failed,
        Self::Cancelling,
        Self::Cancelled,
    ];

    /// Nothing leaves a terminal status.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The run waits for an answer or event from outside; it is not driven meanwhile.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingApproval => "waiting-approval",
            Self::WaitingInput => "waiting-input",
            Self::WaitingExternal => "waiting-external",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// `GET /v1/runs/{runId}`. Values that the definition marks sensitive are masked before they get here.
///
/// Stored beside resting runs as a cache of the fold. Old readers ignore new fields, new readers
/// default missing ones, and an old writer's row is replaced whole: the log stays the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_node_id: Option<NodeId>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    pub variables: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Object>,
    pub node_states: BTreeMap<NodeId, NodeSnapshot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub event_log_schema_version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable: Option<Object>,
    /// The agent that works on the run, or did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRef>,
    /// Whose decisions the run follows, from the first of them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_orchestrator: Option<AgentRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_node_id: Option<NodeId>,
    /// What the parent gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Object>,
    /// The runs that nodes of this one have started, as far as this one knows of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_runs: Vec<ChildRunSnapshot>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkSnapshot>,
    /// The files of the workspace that the run began with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspace: Vec<FileVersion>,
    /// What models have used so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<RunMetrics>,
    /// The highest sequence that this snapshot has folded; absent while the log is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sequence: Option<u64>,
}

/// Figures of a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunMetrics {
    pub openwop_cost: RunCost,
}

/// The usage of all model calls together; provider and model are those of the last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCost {
    /// Absent where the price of any call is unknown: a part is no total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    pub tokens: RunTokens,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

impl RunCost {
    /// The usage of one call.
    pub fn of(usage: &ProviderUsage) -> Self {
        Self {
            usd: usage.cost_estimate_usd,
            tokens: RunTokens { input: usage.input_tokens, output: usage.output_tokens },
            model: Some(usage.model.clone()),
            provider: Some(usage.provider.clone()),
        }
    }

    /// The sum with one call more. A price that is unknown makes an unknown sum.
    #[must_use]
    pub fn plus(so_far: Option<Self>, call: Self) -> Self {
        let usd = so_far.as_ref().map_or(Some(0.0), |so_far| so_far.usd);
        let tokens = so_far.map(|so_far| so_far.tokens).unwrap_or_default();
        Self {
            usd: usd.zip(call.usd).map(|(sum, call)| sum + call),
            tokens: RunTokens {
                input: tokens.input.saturating_add(call.tokens.input),
                output: tokens.output.saturating_add(call.tokens.output),
            },
            ..call
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTokens {
    pub input: u64,
    pub output: u64,
}

/// A run that a node has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildRunSnapshot {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub node_id: NodeId,
    pub status: RunStatus,
}

/// Where a fork left its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkSnapshot {
    pub source_run_id: RunId,
    pub from_seq: u64,
    pub mode: ForkMode,
}

/// What a fork does after the history that it takes over from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForkMode {
    /// Goes through it again on what was recorded; nothing leaves the host.
    Replay,
    /// Leaves it and goes on live.
    Branch,
}

/// One node's place in the run. The protocol leaves this shape to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSnapshot {
    pub status: String,
    /// How often a loop entered the node, from zero.
    pub visit: u32,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}
