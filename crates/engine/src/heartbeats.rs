//! Heartbeats (RFC 0060): something outside is polled, and a change starts a run.
//!
//! The host that moves a heartbeat on observes; a second one finds that it has moved. What was seen is kept in the
//! transaction that creates the run, so after a crash in between nothing was seen: the next observation sees the change.

mod book;
mod heartbeat;
mod heartbeat_loop;
mod notices;
mod stored;

pub use book::NewHeartbeat;
pub use heartbeat::{
    DueHeartbeats, Evaluation, Heartbeat, HeartbeatState, Observe, ObserveError, Probe,
};
pub use heartbeat_loop::{Beat, HeartbeatLoop, MAX_RUNTIME, MIN_INTERVAL};
pub use notices::{HeartbeatEvent, HeartbeatNotice};
pub use stored::Heartbeats;
