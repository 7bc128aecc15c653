//! What some facts say: that an agent begins, that it uses a tool, and the outcome of that.

use callboard_protocol::{Failure, InvocationSource, ToolStatus};
use serde_json::Value;

/// An agent begins to work.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoked {
    pub source: InvocationSource,
    pub model_class: String,
    /// None where no model could be found.
    pub model: Option<(String, String)>,
    pub version: String,
    pub channel: Option<String>,
    pub tools: usize,
    pub memory: bool,
}

/// A tool is about to be used.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCalled {
    pub tool: String,
    pub call_id: String,
    /// None where only the coding agent knows, whose tool it is.
    pub inputs: Option<Value>,
    pub args_hash: Option<String>,
    pub principal: Option<String>,
    pub transport: String,
}

/// A tool was used, or was not allowed to be.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReturned {
    pub tool: String,
    pub call_id: String,
    pub result: Result<Value, Failure>,
    pub status: ToolStatus,
    pub duration_ms: Option<u64>,
}
