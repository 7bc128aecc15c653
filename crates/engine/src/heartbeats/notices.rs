//! Notices of heartbeats, for those who listen now.
//!
//! RFC 0060 keeps it out of every log, so nobody can come back for it: the row says how the last look went, and a run
//! that was started has a log of its own.

use serde_json::{Value, json};
use tokio::sync::broadcast;

use callboard_protocol::{
    HeartbeatEvaluated, HeartbeatId, HeartbeatSkip, HeartbeatSkipped, HeartbeatStateChanged,
    Timestamp,
};

use super::heartbeat_loop::{Beat, HeartbeatLoop};
use crate::store::Scope;

/// What a listener may be behind before it misses something: more than a tick sends.
pub(super) const MOST_UNREAD: usize = 256;

/// One thing that a look came to.
#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatNotice {
    /// Who may see it.
    pub place: Scope,
    pub at: Timestamp,
    pub what: HeartbeatEvent,
}

#[derive(Debug, Clone, PartialEq)]
pub enum HeartbeatEvent {
    Evaluated(HeartbeatEvaluated),
    StateChanged(HeartbeatStateChanged),
    Skipped(HeartbeatSkipped),
}

impl HeartbeatEvent {
    /// The type under which it goes over the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Evaluated(_) => "heartbeat.evaluated",
            Self::StateChanged(_) => "heartbeat.stateChanged",
            Self::Skipped(_) => "callboard.heartbeat.skipped",
        }
    }

    pub fn payload(&self) -> Value {
        match self {
            Self::Evaluated(payload) => json!(payload),
            Self::StateChanged(payload) => json!(payload),
            Self::Skipped(payload) => json!(payload),
        }
    }
}

impl HeartbeatLoop {
    /// The outcomes of this host's observations from now on.
    pub fn listen(&self) -> broadcast::Receiver<HeartbeatNotice> {
        self.inner.notices.subscribe()
    }

    /// Sends what a look came to once what followed from it is on disk.
    pub(super) fn notify_of(&self, place: &Scope, beat: &Beat, skipped: Option<HeartbeatSkip>) {
        self.notify(place, HeartbeatEvent::Evaluated(beat.evaluated.clone()));
        if let Some(changed) = &beat.changed {
            self.notify(place, HeartbeatEvent::StateChanged(changed.clone()));
        }
        if let Some(reason) = skipped {
            self.notify_skipped(place, &beat.evaluated.heartbeat_id, reason);
        }
    }

    pub(super) fn notify_skipped(&self, place: &Scope, id: &HeartbeatId, reason: HeartbeatSkip) {
        let skipped = HeartbeatSkipped { heartbeat_id: id.clone(), reason };
        self.notify(place, HeartbeatEvent::Skipped(skipped));
    }

    fn notify(&self, place: &Scope, what: HeartbeatEvent) {
        let notice =
            HeartbeatNotice { place: place.clone(), at: self.inner.engine.clock().now(), what };
        // Nobody has to listen.
        let _unread = self.inner.notices.send(notice);
    }
}
