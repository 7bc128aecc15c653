//! Logs that hold an event which this build cannot read: nothing may be decided on them.

use callboard_protocol::{Event, UnreadableEvent};

use super::Entry;

/// An event of a kind that this build knows, with a payload that it cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence} of its log, {kind}, cannot be read: {why}")]
pub struct Unreadable {
    pub sequence: u64,
    pub kind: String,
    /// What is wrong with the payload; repeats nothing of what it says.
    pub why: String,
}

impl Unreadable {
    /// The first such event of a log.
    pub fn find(entries: &[Entry]) -> Option<Self> {
        entries.iter().find_map(|entry| match &entry.event {
            Event::Unreadable(event) => Some(Self::at(entry.sequence, event)),
            _ => None,
        })
    }

    pub(super) fn at(sequence: u64, event: &UnreadableEvent) -> Self {
        Self { sequence, kind: event.kind.clone(), why: event.why.clone() }
    }
}
