//! What heartbeats tell those who listen now.
//!
//! RFC 0060 keeps it out of every log, so nobody can come back for it: the row says how the last look went, and a run
//! that was started tells its own story.

use serde_json::{Value, json};
use tokio::sync::broadcast;

use callboard_protocol::{
    HeartbeatEvaluated, HeartbeatId, HeartbeatSkip, HeartbeatSkipped, HeartbeatStateChanged,
    Timestamp,
};

use super::heartbeat_loop::{Beat, HeartbeatLoop};
use crate::store::Scope;

/// What a listener may be behind before it misses something: more than a tick tells.
pub(super) const MOST_UNHEARD: usize = 256;

/// One thing that was told.
#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatTold {
    /// Who may hear it.
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
            Self::Evaluated(told) => json!(told),
            Self::StateChanged(told) => json!(told),
            Self::Skipped(told) => json!(told),
        }
    }
}

impl HeartbeatLoop {
    /// What is told from now on, of the looks that this host takes.
    pub fn listen(&self) -> broadcast::Receiver<HeartbeatTold> {
        self.inner.told.subscribe()
    }

    /// Tells of a look once what followed from it is on disk.
    pub(super) fn tell_of(&self, place: &Scope, beat: &Beat, skipped: Option<HeartbeatSkip>) {
        self.tell(place, HeartbeatEvent::Evaluated(beat.evaluated.clone()));
        if let Some(changed) = &beat.changed {
            self.tell(place, HeartbeatEvent::StateChanged(changed.clone()));
        }
        if let Some(reason) = skipped {
            self.tell_skipped(place, &beat.evaluated.heartbeat_id, reason);
        }
    }

    pub(super) fn tell_skipped(&self, place: &Scope, id: &HeartbeatId, reason: HeartbeatSkip) {
        let skipped = HeartbeatSkipped { heartbeat_id: id.clone(), reason };
        self.tell(place, HeartbeatEvent::Skipped(skipped));
    }

    fn tell(&self, place: &Scope, what: HeartbeatEvent) {
        let told =
            HeartbeatTold { place: place.clone(), at: self.inner.engine.clock().now(), what };
        // Nobody has to listen.
        let _unheard = self.inner.told.send(told);
    }
}
