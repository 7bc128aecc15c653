//! Facts on their way from the attempts of a run to its log.

use tokio::sync::mpsc;

use callboard_core::Command;

use super::{Driver, Left};
use crate::activity::{FactSender, Message, SentFacts, Superseded, Unrecorded};
use crate::engine::EngineError;
use crate::store::StoreError;

/// Facts that activities of one run may have under way. They wait for the disk anyway.
const FACTS_IN_FLIGHT: usize = 16;

/// Where the attempts of a run send their facts.
pub(super) struct FactChannel {
    pub(super) sender: FactSender,
    messages: mpsc::Receiver<Message>,
}

impl FactChannel {
    pub(super) fn new() -> Self {
        let (sender, messages) = mpsc::channel(FACTS_IN_FLIGHT);
        Self { sender: FactSender(sender), messages }
    }

    /// Cancel-safe: what was sent and not taken is kept.
    pub(super) async fn next(channel: &mut Option<Self>) -> Option<Message> {
        channel.as_mut()?.messages.recv().await
    }
}

impl Driver<'_> {
    pub(super) async fn record_facts(
        &mut self,
        sent: SentFacts,
    ) -> Result<Option<Left>, EngineError> {
        let is_current = self.run.attempts().any(|attempt| attempt == sent.attempt);
        if !is_current {
            // Its sender may be gone; then nobody waits for an answer.
            let _gone = sent.recorded.send(Err(Unrecorded::Superseded(Superseded)));
            return Ok(None);
        }
        let attempt = sent.attempt.clone();
        let command = Command::RecordFacts { attempt: sent.attempt, facts: sent.facts };
        let left = match self.record_all(vec![command.into()], sent.kept).await {
            Err(EngineError::Store(StoreError::Moved { .. })) => {
                // What was decided is not written; the attempt goes on and may decide anew.
                self.read_again().await?;
                let _gone = sent.recorded.send(Err(Unrecorded::Moved));
                return Ok(None);
            }
            recorded => recorded?,
        };
        let still_current = self.run.attempts().any(|owed| owed == attempt);
        let superseded = Err(Unrecorded::Superseded(Superseded));
        let _gone = sent.recorded.send(if still_current { Ok(()) } else { superseded });
        Ok(left)
    }
}
