//! Where events go: to the consumer, or into a buffer until the agent has exited.

use tokio::sync::mpsc;

use super::Delivery;
use crate::event::AgentEvent;

/// What is held back for a consumer who may not see it yet; an answer for people is far smaller.
const HELD_BYTES: usize = 8 * 1024 * 1024;

pub(super) struct Sink {
    /// None when no one listens.
    events: Option<mpsc::Sender<AgentEvent>>,
    held: Option<Vec<AgentEvent>>,
    held_bytes: usize,
}

impl Sink {
    pub(super) fn new(events: mpsc::Sender<AgentEvent>, delivery: Delivery) -> Self {
        let held = (delivery == Delivery::AfterExit).then(Vec::new);
        Self { events: Some(events), held, held_bytes: 0 }
    }

    pub(super) async fn send(&mut self, event: AgentEvent) {
        match &mut self.held {
            Some(held) => {
                self.held_bytes += event.text.as_ref().map_or(64, String::len);
                if self.held_bytes <= HELD_BYTES {
                    held.push(event);
                }
            }
            None => self.hand_over(event).await,
        }
    }

    pub(super) fn has_overflowed(&self) -> bool {
        self.held_bytes > HELD_BYTES
    }

    /// Hands over what was held back and the last event, then ends the stream.
    pub(super) async fn finish(&mut self, last: Option<AgentEvent>) {
        for event in self.held.take().into_iter().flatten().chain(last) {
            self.hand_over(event).await;
        }
        self.close();
    }

    pub(super) fn close(&mut self) {
        self.events = None;
    }

    async fn hand_over(&mut self, event: AgentEvent) {
        if let Some(events) = &self.events
            && events.send(event).await.is_err()
        {
            self.close();
        }
    }
}
