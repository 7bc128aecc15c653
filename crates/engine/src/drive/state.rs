//! What the holder of a run knows of it, brought up to date with its log.

use callboard_core::{Command, Entry, Run};
use callboard_protocol::Event;

use super::{Driver, Left};
use crate::engine::EngineError;
use crate::record::refuse_unreadable;

impl Driver<'_> {
    /// A caller appended: cancel, pause, an answer.
    pub(super) async fn catch_up(&mut self) -> Result<Option<Left>, EngineError> {
        let store = &self.engine.inner.patient_store;
        let entries = store.tail(self.run.id(), self.run.version()).await?;
        refuse_unreadable(self.run.id(), &entries)?;
        let fold = move |run: &mut Run| {
            entries.iter().for_each(|entry| run.apply(entry));
            entries
        };
        let entries = self.with_run(fold).await?;
        self.share_memory(&entries);
        self.stop_superseded();
        if self.run.status().is_terminal() {
            return Ok(Some(Left::Released));
        }
        self.record(Command::Continue).await
    }

    pub(super) async fn read_again(&mut self) -> Result<(), EngineError> {
        let id = self.run.id().clone();
        if let Some(run) = self.engine.patiently(|| self.engine.open(&id)).await? {
            self.run = run;
            self.memory.set(self.run.memory_view());
        }
        self.stop_superseded();
        Ok(())
    }

    /// Lets attempts see what was just remembered, here or by a child that completed.
    pub(super) fn share_memory(&self, entries: &[Entry]) {
        let remembers =
            |entry: &Entry| matches!(entry.event, Event::MemoryWritten(_) | Event::ChildChanged(_));
        if entries.iter().any(remembers) {
            self.memory.set(self.run.memory_view());
        }
    }
}
