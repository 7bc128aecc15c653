//! What the log tells of memory: names alone, never what was remembered.

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
    /// The version of the entry that this tells of.
    pub fn remembered(&self) -> Remembered {
        Remembered { id: self.memory_id.clone(), version: self.version }
    }
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
