//! Session files of coding agents, in memory.

use async_trait::async_trait;

use callboard_protocol::{RunId, Tenant};

use super::InMemoryStore;
use crate::coding_sessions::CodingSessions;
use crate::store::StoreError;

#[async_trait]
impl CodingSessions for InMemoryStore {
    async fn keep_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
        files: String,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let goes_on = tables.runs.get(run).is_some_and(|stored| {
            stored.birth.owner.tenant == *tenant && !stored.head.status.is_terminal()
        });
        if goes_on {
            tables.coding_sessions.insert((run.clone(), home.to_owned()), files);
        }
        Ok(())
    }

    async fn kept_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
    ) -> Result<Option<String>, StoreError> {
        let tables = self.tables();
        let is_theirs =
            tables.runs.get(run).is_some_and(|stored| stored.birth.owner.tenant == *tenant);
        let kept = tables.coding_sessions.get(&(run.clone(), home.to_owned()));
        Ok(kept.filter(|_| is_theirs).cloned())
    }

    async fn forget_sessions(&self) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let (runs, mut kept) = (&tables.runs, tables.coding_sessions.clone());
        kept.retain(|(run, _), _| {
            runs.get(run).is_some_and(|stored| !stored.head.status.is_terminal())
        });
        let forgotten = tables.coding_sessions.len() - kept.len();
        tables.coding_sessions = kept;
        Ok(forgotten)
    }
}
