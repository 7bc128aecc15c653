//! The request that starts a run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// One run: a prompt, where it happens, and what is asked beyond it.
#[derive(Clone, Default, PartialEq)]
pub struct AgentRunRequest {
    pub prompt: String,
    /// Relative to the host's folder at the start of the run. Without it the backend's own folder is used.
    pub working_dir: Option<PathBuf>,
    /// How long the process may live. `Duration::ZERO` means without limit.
    pub timeout: Option<Duration>,
    /// For the child only, above whatever the backend sets.
    pub env: BTreeMap<String, String>,
    /// Options under the names of capabilities; see [`crate::capability`].
    pub extensions: BTreeMap<String, Value>,
}

impl AgentRunRequest {
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), ..Self::default() }
    }

    #[must_use]
    pub fn extension(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extensions.insert(key.into(), value.into());
        self
    }
}

/// Prompts and environment values stay out of logs.
impl fmt::Debug for AgentRunRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRunRequest")
            .field("prompt_bytes", &self.prompt.len())
            .field("working_dir", &self.working_dir)
            .field("timeout", &self.timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("extensions", &self.extensions.keys().collect::<Vec<_>>())
            .finish()
    }
}
