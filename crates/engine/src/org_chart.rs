//! The port to charts of who stands where: one for each owner and kind of key, in versions.

use std::fmt;

use async_trait::async_trait;

use callboard_protocol::{AgentOrgChart, RosterOwner, Timestamp};

use crate::store::{KeyMode, StoreError};

/// Charts by owner. Whoever is dismissed leaves every chart in the same transaction.
#[async_trait]
pub trait OrgCharts: fmt::Debug + Send + Sync {
    async fn chart(
        &self,
        mode: KeyMode,
        owner: &RosterOwner,
    ) -> Result<Option<StoredChart>, StoreError>;

    /// Keeps a chart, and answers its version. What was decided on another version, or places somebody who is not on
    /// the owner's roster, is [`StoreError::Moved`].
    async fn put_chart(
        &self,
        mode: KeyMode,
        chart: AgentOrgChart,
        expected: Option<u64>,
        at: Timestamp,
    ) -> Result<u64, StoreError>;
}

/// A chart as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChart {
    pub chart: AgentOrgChart,
    /// Grows by one with every change; the first is one.
    pub version: u64,
}
