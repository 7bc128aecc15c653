//! Runs whose logs were written by somebody else: kept as they stand, from the era before the protocol's second major.

use std::sync::Arc;

use callboard_core::{Entry, Run};
use callboard_protocol::{Event, RunId, RunStatus};

use super::{Engine, EngineError};
use crate::drive::Granted;
use crate::order::Order;
use crate::record::{Rows, append_of};
use crate::store::{Batch, Fence, Lease, Row, StoreError, Then};

impl Engine {
    /// Keeps a run with its whole log, as an older host left both: it says of nobody that they made it. What the log
    /// leaves open is taken up as after the loss of a host. None where the log comes to another status.
    pub async fn import(
        &self,
        order: Order,
        log: Vec<Row>,
        status: RunStatus,
    ) -> Result<Option<RunId>, EngineError> {
        let prepared = self.prepare(order, |birth| {
            birth.stamp = None;
            birth.owner.principal = None;
            birth.created_at = log.first().map_or(birth.created_at, |first| first.at);
        });
        let prepared = prepared.await?;
        let (mut record, run) = (prepared.record, prepared.run);
        // Whoever holds the run is the only one to write, until its log is there.
        let full = || StoreError::Unavailable("this host has no place for a run now".to_owned());
        let Granted { claim, until, place } = prepared.claim.ok_or_else(full)?;
        record.lease = Some(Lease { host: claim.host.clone(), until });
        let entries: Vec<Entry> = log.iter().zip(0..).map(entry).collect();
        let run = Run::replay(Arc::clone(run.birth()), Arc::clone(run.plan()), &entries);
        if run.head().status != status {
            return Ok(None);
        }
        let mut append = append_of(&run, &entries, Some(Fence { claim, then: Then::Release }));
        append.rows = log;
        self.inner.store.commit(Batch::of_run(*record)).await?;
        self.commit(&run, &entries, append, Rows::default()).await?;
        drop(place);
        Ok(Some(run.id().clone()))
    }
}

fn entry((row, sequence): (&Row, u64)) -> Entry {
    let payload = serde_json::from_str(&row.payload).unwrap_or_default();
    let event = Event::read(&row.kind, row.node.clone(), payload);
    Entry { sequence, at: row.at, event, cause: row.cause.clone() }
}
