//! What events answer: the protocol's `causationId`.

use callboard_protocol::Event;

use super::Run;

/// What an event answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// An earlier event of the same log, by its sequence.
    Event(u64),
    /// Something outside the log that has an id of its own.
    Outside(String),
}

impl Run {
    /// What the event that comes next answers.
    pub(super) fn cause(&self, event: &Event) -> Option<Cause> {
        match event {
            // It stands right behind the suspension that it belongs to.
            Event::ConversationOpened(_) => self.version.checked_sub(1).map(Cause::Event),
            _ => None,
        }
    }
}
