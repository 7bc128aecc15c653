//! An agent's memory of earlier invocations, and what it stores of this one.

use serde_json::Value;

use callboard_engine::{MemoryError, OnceError, unreached};

use super::Work;
use crate::ask::End;
use crate::model::Message;

impl Work<'_> {
    /// The part of the prompt that says what the agent remembers.
    pub(super) async fn remembered(&self) -> Result<Option<String>, End> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let block = memory.block(self.host.settings.memory_bytes).await;
        block.map_err(|error| End::Once(OnceError::Ended(unreached(&error))))
    }

    /// Keeps a result for the agent's next invocation. An attempt that starts afresh keeps nothing twice.
    pub(super) async fn remember(&mut self, result: &Value) -> Result<(), OnceError> {
        if self.memory.is_none() && self.conversation.is_none() {
            return Ok(());
        }
        // What was found comes before what is remembered of it.
        self.asker.facts.flush().await?;
        if let Some(memory) = &self.memory {
            memory.keep(result).await.map_err(unkept)?;
        }
        if let Some(conversation) = &self.conversation {
            conversation.keep(result).await.map_err(unkept)?;
        }
        Ok(())
    }

    /// The turns of earlier invocations in this run, with what is asked now still to come.
    pub(super) async fn said_before(&mut self, asked: &str) -> Result<Vec<Message>, End> {
        let Some(conversation) = &mut self.conversation else { return Ok(Vec::new()) };
        let said = conversation.open(asked, self.host.settings.conversation_bytes).await;
        said.map_err(|error| End::Once(OnceError::Ended(unreached(&error))))
    }
}

fn unkept(error: MemoryError) -> OnceError {
    match error {
        MemoryError::Superseded(superseded) => superseded.into(),
        other => OnceError::Ended(other.outcome()),
    }
}
