//! A run told in the second major: its events one by one, its snapshots.

use std::sync::Arc;

use callboard_core::Born;
use callboard_engine::{Recorded, Scope, Store};
use callboard_protocol::{Object, RunId};
use serde_json::Value;

use super::event::{Asked, document};
use super::{id, snapshot};
use crate::log::PAGE;
use crate::problem::Problem;

/// Tells one run. It remembers what nodes have asked up to where it has come, and reads what it has not seen when an
/// event needs it.
#[derive(Debug)]
pub(crate) struct RunProjection {
    store: Arc<dyn Store>,
    scope: Scope,
    run: RunId,
    born: Born,
    engine_version: u32,
    asked: Asked,
    /// Everything before this was seen.
    seen: u64,
}

impl RunProjection {
    /// None: there is no such run for those who see this much.
    pub(crate) async fn of(
        store: &Arc<dyn Store>,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Self>, Problem> {
        let Some(found) = store.find(scope, run).await? else { return Ok(None) };
        Ok(Some(Self {
            store: Arc::clone(store),
            scope: scope.clone(),
            run: run.clone(),
            born: found.born,
            engine_version: found.engine_version,
            asked: Asked::default(),
            seen: 0,
        }))
    }

    pub(crate) fn tenant(&self) -> &str {
        self.born.owner.tenant.as_str()
    }

    /// The run's id as it is told.
    pub(crate) fn run_id(&self) -> String {
        id::bound(self.tenant(), self.run.as_str())
    }

    pub(crate) async fn event(&mut self, event: &Recorded) -> Result<Value, Problem> {
        if Asked::is_needed_for(&event.kind) {
            self.see_until(event.sequence).await?;
        }
        if event.sequence == self.seen {
            self.asked.note(event);
            self.seen += 1;
        }
        document(event, &self.born, &self.asked)
    }

    pub(crate) fn snapshot(&self, first: &str) -> Result<Object, Problem> {
        snapshot::project(first, &self.born, self.engine_version)
    }

    async fn see_until(&mut self, sequence: u64) -> Result<(), Problem> {
        while self.seen < sequence {
            let page = self.store.read(&self.scope, &self.run, self.seen, PAGE).await?;
            let events = page.map(|page| page.events).unwrap_or_default();
            if events.is_empty() {
                return Ok(());
            }
            for event in events.iter().filter(|event| event.sequence < sequence) {
                self.asked.note(event);
            }
            let last = events.last().map_or(self.seen, |event| event.sequence + 1);
            self.seen = last.min(sequence);
        }
        Ok(())
    }
}
