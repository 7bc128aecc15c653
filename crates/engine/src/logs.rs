//! The port to all logs at once, in the order of commits, for those who follow a tenant.

use std::fmt;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::engine::{Engine, Inner};
use crate::store::{Recorded, Scope, StoreError};
use crate::webhooks::LogPosition;

#[async_trait]
pub trait Logs: fmt::Debug + Send + Sync {
    /// The place of the newest event.
    async fn newest(&self) -> Result<LogPosition, StoreError>;

    /// What the caller may see of the next `most` events of everybody. A reader goes on from [`Window::until`],
    /// so that what others do costs it nothing twice.
    async fn read_all(
        &self,
        scope: &Scope,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError>;
}

/// A stretch of all logs, as one caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub events: Vec<(LogPosition, Recorded)>,
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
