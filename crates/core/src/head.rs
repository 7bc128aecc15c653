//! The columns of a run that lists filter by and the claim scan looks at.

use callboard_protocol::{RunStatus, Timestamp};

/// Derived from the fold and written with every append, never on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: RunStatus,
    /// How many events the log holds, which is also the sequence of the next one.
    pub version: u64,
    /// When the run is due again; none while it waits for the outside or has ended.
    pub wake_at: Option<Timestamp>,
    /// The time of the newest event, or of the birth.
    pub updated_at: Timestamp,
}
