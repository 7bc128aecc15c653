//! Events about memory: names only, never the content.

use serde::{Deserialize, Serialize};

use crate::{MemoryId, NodeId, Remembered};

/// `memory.written`: a run remembered something. Build it by naming fields, so that no content slips in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryWritten {
    pub memory_ref: String,
    pub memory_id: MemoryId,
    /// Ours: which version of the entry this made.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl MemoryWritten {
    /// The version of the entry that was written.
    pub fn remembered(&self) -> Remembered {
        Remembered { id: self.memory_id.clone(), version: self.version }
    }
}

/// `memory.compacted`: one entry took the place of several. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCompacted {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub memory_ref: String,
    pub output_id: MemoryId,
    /// All of them, or none where they are too many to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ids: Option<Vec<MemoryId>>,
    pub source_count: usize,
    pub trigger: CompactionTrigger,
    pub byte_size: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distillation: Option<Distillation>,
}

/// Who wanted entries to be compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionTrigger {
    HostManaged,
    ClientRequested,
}

/// What a compaction within a budget has used of it. Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Distillation {
    pub token_budget: u64,
    pub tokens_used: u64,
    pub index_updated: bool,
}

/// `agent.memory.consolidated`: entries that said the same have become one. The node stands on the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryConsolidated {
    #[serde(skip)]
    pub node_id: Option<NodeId>,
    pub memory_ref: String,
    pub input_count: usize,
    pub output_count: usize,
    /// All of them, or none where they are too many to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_ids: Option<Vec<MemoryId>>,
    pub trigger: ConsolidationTrigger,
}

/// Who wanted entries to be consolidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsolidationTrigger {
    HostManaged,
    OnDemand,
}

fn first() -> u64 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_first(version: &u64) -> bool {
    *version == 1
}
