//! Heartbeats (RFC 0060): something outside is looked at again and again, and a change starts a run.
//!
//! Whoever moves a heartbeat on has its look; whoever comes second finds that it has moved. What was seen is kept in
//! the transaction that creates the run, so a host that dies in between has seen nothing: the next look sees the change.

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
