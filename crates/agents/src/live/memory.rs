//! What an agent remembers of earlier invocations, and what it keeps of this one.

use serde_json::Value;

use callboard_engine::{MemoryError, OnceError, unreached};

use super::{End, Work};

impl Work<'_> {
    /// The part of the prompt that says what the agent remembers.
    pub(super) async fn remembered(&self) -> Result<Option<String>, End> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let block = memory.block(self.host.settings.memory_bytes).await;
        block.map_err(|error| End::Once(OnceError::Ended(unreached(&error))))
    }

    /// Keeps a result for the agent's next invocation. An attempt that starts afresh keeps nothing twice.
    pub(super) async fn remember(&mut self, result: &Value) -> Result<(), OnceError> {
        let Some(memory) = &self.memory else { return Ok(()) };
        // What was found comes before what is remembered of it.
        self.tale.tell().await?;
        memory.keep(result).await.map_err(|error| match error {
            MemoryError::Superseded(superseded) => superseded.into(),
            other => OnceError::Ended(other.outcome()),
        })
    }
}
