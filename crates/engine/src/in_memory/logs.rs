//! All logs at once, in memory.

use async_trait::async_trait;

use super::{InMemoryStore, index};
use crate::logs::{Logs, Window};
use crate::store::{Scope, StoreError};
use crate::webhooks::LogPosition;

#[async_trait]
impl Logs for InMemoryStore {
    async fn newest(&self) -> Result<LogPosition, StoreError> {
        Ok(LogPosition(self.tables().log.len() as u64))
    }

    async fn read_all(
        &self,
        scope: &Scope,
        after: LogPosition,
        most: u64,
    ) -> Result<Window, StoreError> {
        let tables = self.tables();
        let newest = tables.log.len() as u64;
        let until = after.0.saturating_add(most).min(newest).max(after.0);
        // Positions begin at one, so a position is the index of what comes after it.
        let places = tables.log.iter().enumerate().take(index(until)).skip(index(after.0));
        let events = places.filter_map(|(place, (run, sequence))| {
            let run = tables.visible(scope, run)?;
            let row = run.rows.get(index(*sequence))?;
            Some((LogPosition(place as u64 + 1), run.recorded(index(*sequence), row)))
        });
        Ok(Window { events: events.collect(), until: LogPosition(until) })
    }
}
