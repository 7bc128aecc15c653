//! Facts on their way from the attempts of a run to its log.

use tokio::sync::mpsc;

use callboard_core::Command;

use super::{Driver, Left};
use crate::activity::{Message, Superseded, Teller, Told, Untold};
use crate::engine::EngineError;
use crate::store::StoreError;

/// Facts that activities of one run may have under way. They wait for the disk anyway.
const TOLD_IN_FLIGHT: usize = 16;

/// What activities have to tell.
pub(super) struct Voices {
    pub(super) teller: Teller,
    told: mpsc::Receiver<Message>,
}

impl Voices {
    pub(super) fn new() -> Self {
        let (sender, told) = mpsc::channel(TOLD_IN_FLIGHT);
        Self { teller: Teller(sender), told }
    }

    /// Cancel-safe: what was told and not taken is kept.
    pub(super) async fn next(voices: &mut Option<Self>) -> Option<Message> {
        voices.as_mut()?.told.recv().await
    }
}

impl Driver<'_> {
    pub(super) async fn tell(&mut self, told: Told) -> Result<Option<Left>, EngineError> {
        let is_current = self.run.attempts().any(|attempt| attempt == told.attempt);
        if !is_current {
            // Its sender may be gone; then there is nobody to tell.
            let _gone = told.recorded.send(Err(Untold::Superseded(Superseded)));
            return Ok(None);
        }
        let attempt = told.attempt.clone();
        let command = Command::Tell { attempt: told.attempt, facts: told.facts };
        let left = match self.record_all(vec![command.into()], told.kept).await {
            Err(EngineError::Store(StoreError::Moved { .. })) => {
                // What was decided is not written; the attempt goes on and may decide anew.
                self.read_again().await?;
                let _gone = told.recorded.send(Err(Untold::Moved));
                return Ok(None);
            }
            recorded => recorded?,
        };
        let still_current = self.run.attempts().any(|owed| owed == attempt);
        let superseded = Err(Untold::Superseded(Superseded));
        let _gone = told.recorded.send(if still_current { Ok(()) } else { superseded });
        Ok(left)
    }
}
