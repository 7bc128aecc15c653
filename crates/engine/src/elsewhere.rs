//! What other hosts of the same database have done, as far as this process must hear of it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use callboard_protocol::{HostId, RunId, Timestamp};

use crate::engine::{DrivingLoad, Engine};
use crate::store::StoreError;

/// What every process keeps in memory and any of them may change. The name is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cache {
    Keys,
    Packs,
}

impl Cache {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Packs => "packs",
        }
    }
}

/// How often each cache has fallen behind. Another number than the last one means: read it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generations {
    pub keys: u64,
    pub packs: u64,
}

/// A host of the database, as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSeen {
    pub id: HostId,
    pub version: String,
    /// Where it listens.
    pub address: String,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    /// Whether it was not seen for [`Self::GONE_AFTER`].
    pub is_gone: bool,
    pub load: DrivingLoad,
    /// How long the database took to answer it.
    pub latency_ms: u64,
    /// Whether it hears the hints of other hosts.
    pub is_listening: bool,
}

impl HostSeen {
    /// A host says every few seconds that it is there; some may come late on a busy machine.
    pub const GONE_AFTER: Duration = Duration::from_secs(20);
}

/// The port to a database that other hosts write to as well.
#[async_trait]
pub trait Elsewhere: fmt::Debug + Send + Sync {
    /// As they were at some moment after this was called.
    async fn generations(&self) -> Result<Generations, StoreError>;

    /// The hosts that were there lately, in the order of their starts.
    async fn hosts(&self) -> Result<Vec<HostSeen>, StoreError>;
}

/// What other hosts have said since the last look. Only hints: some may come twice, late or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// A run is due that its last holder does not take.
    pub due: bool,
    pub log_grew: bool,
    pub caches_changed: bool,
    /// Runs whose child has moved.
    pub woken: Vec<RunId>,
}

impl Engine {
    /// Follows hints of other hosts. Each of them plans deliveries for what it has appended itself.
    pub fn hear(&self, heard: &Heard) {
        for run in &heard.woken {
            self.inner.driving.call(run);
        }
        if heard.due {
            self.inner.nudge.notify_one();
        }
        if heard.log_grew {
            self.inner.growth.send_modify(|times| *times = times.wrapping_add(1));
        }
    }

    /// Looks at everything that another host may have written: due runs, logs, questions.
    pub fn look_again(&self) {
        self.inner.nudge.notify_one();
        self.inner.asked.notify_one();
        self.inner.log_grew();
    }
}
