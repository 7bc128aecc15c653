//! All logs at once, in the order of commits: what those who follow a tenant read, and those who plan deliveries.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::engine::{Engine, Inner};
use crate::store::{Recorded, Scope};

/// A place in all logs together, in the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct LogPosition(pub u64);

/// One event among all, with what decides who receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub position: LogPosition,
    /// Where its run lives.
    pub place: Scope,
    pub tags: Vec<String>,
    /// Whether its run only goes through another's history again.
    pub is_replay: bool,
    /// As readers see it.
    pub event: Recorded,
}

/// A stretch of all logs, as one reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub events: Vec<Logged>,
    /// Everything up to here was looked at.
    pub until: LogPosition,
}

impl Inner {
    pub(crate) fn log_grew(&self) {
        self.appended.notify_one();
        self.growth.send_modify(|times| *times = times.wrapping_add(1));
    }
}

impl Engine {
    /// Changes whenever a log of this process has grown: a hint to read.
    pub fn growth(&self) -> watch::Receiver<u64> {
        self.inner.growth.subscribe()
    }
}
