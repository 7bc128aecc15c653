//! The operator's settings for live agents.

use std::path::PathBuf;
use std::time::Duration;

use crate::ask::RETRY_PAUSE;
use crate::model::SCHEMA_ROUNDS;
use crate::task::{TaskReader, plain_task};

/// Bounds of one invocation.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// How often a model may have tools called before it must answer.
    pub tool_rounds: u32,
    /// How often a model is asked for one answer: the protocol's `schemaRounds`.
    pub schema_rounds: u32,
    pub max_output_tokens: u32,
    /// An answer that was cut off is asked for again with at most this budget.
    pub output_ceiling: u32,
    /// The wait before a failing provider is called again; each later wait is twice the one before.
    pub retry_pause: Duration,
    pub tool_timeout: Duration,
    /// More of a tool's result is cut.
    pub tool_result_bytes: usize,
    /// More of what an agent remembers is not shown to it unasked.
    pub memory_bytes: usize,
    /// More of what an agent said earlier in the run is not shown to it.
    pub conversation_bytes: usize,
    /// Where runs have their folders of files.
    pub workspaces: PathBuf,
    pub read_task: TaskReader,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self {
            tool_rounds: 25,
            schema_rounds: SCHEMA_ROUNDS,
            max_output_tokens: 8_192,
            output_ceiling: 65_536,
            retry_pause: RETRY_PAUSE,
            tool_timeout: Duration::from_secs(60),
            // About twenty pages: more would push everything else out of a model's sight.
            tool_result_bytes: 64 << 10,
            memory_bytes: 16 << 10,
            conversation_bytes: 256 << 10,
            workspaces: std::env::temp_dir(),
            read_task: plain_task,
        }
    }
}
