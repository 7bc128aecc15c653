//! The port to session files of coding agents: kept while their run lasts.

use std::fmt;

use async_trait::async_trait;

use callboard_protocol::{RunId, Tenant};

use crate::store::StoreError;

/// Keeps the session files of one home as one text.
#[async_trait]
pub trait CodingSessions: fmt::Debug + Send + Sync {
    /// Replaces what was kept of this home before. A run that is over, or of somebody else, keeps nothing.
    async fn keep_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
        files: String,
    ) -> Result<(), StoreError>;

    async fn kept_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
    ) -> Result<Option<String>, StoreError>;

    /// Forgets the files of runs that are over; answers how many homes those were.
    async fn forget_sessions(&self) -> Result<usize, StoreError>;
}
