//! The discovery document's part about memory.

use serde::{Deserialize, Serialize};

/// What runs can remember. Its parts are closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryCapability {
    pub supported: bool,
    pub max_entry_size_bytes: u64,
    pub ttl_supported: bool,
    pub search: MemorySearch,
    pub retention: MemoryRetention,
    pub attribution: MemoryAttribution,
    pub compaction: MemoryCompaction,
    pub distillation: MemoryDistillation,
}

/// RFC 0012.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryCompaction {
    pub supported: bool,
    pub trigger: String,
    pub max_output_bytes: u64,
}

/// RFC 0062.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryDistillation {
    pub supported: bool,
    pub max_token_budget: u64,
    /// A workflow that distils can have a schedule.
    pub scheduled: bool,
    pub index_emitted: bool,
    pub tokenizer_name: String,
}

/// RFC 0068: what is remembered until its time has come. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentsCapability {
    pub supported: bool,
    pub fire_conditions: Vec<String>,
}

/// RFC 0068: entries that say the same become one. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConsolidation {
    pub supported: bool,
    pub schedule: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemorySearch {
    pub supported: bool,
    pub modes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryRetention {
    pub ttl: bool,
    pub forget: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryAttribution {
    pub supported: bool,
    pub emits_write_events: bool,
}

/// RFC 0059: files that outlast runs. `maxVersions` is left out, because no version is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceCapability {
    pub supported: bool,
    pub versioned: bool,
    pub max_file_bytes: u64,
    pub max_files: u64,
}
