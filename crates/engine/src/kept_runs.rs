//! Runs that are kept for ever, whatever retention says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{RunId, Timestamp};

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Scope, Store, StoreError};

#[derive(Debug, Clone)]
pub struct KeptRuns {
    store: Arc<dyn Store>,
}

/// Who wants a run to stay, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptRun {
    pub run_id: RunId,
    pub kept_at: Timestamp,
    pub kept_by: String,
}

fn key(run: &RunId) -> Key {
    Key::of([run.as_str()])
}

impl KeptRuns {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Answers whether there is such a run for this caller. The run stays as long as the record does.
    pub async fn keep(&self, scope: &Scope, kept: &KeptRun) -> Result<bool, StoreError> {
        let run = &kept.run_id;
        if self.store.find(scope, run).await?.is_none() {
            return Ok(false);
        }
        let put = RecordChange::put(Kind::KeptRun, key(run), scope.clone(), kept)?;
        self.store.commit(Batch::of_records([put.retaining_run(run)])).await?;
        Ok(true)
    }

    /// Answers whether this caller's run was kept. From here on retention counts again.
    pub async fn release(&self, scope: &Scope, run: &RunId) -> Result<bool, StoreError> {
        if self.store.find(scope, run).await?.is_none() {
            return Ok(false);
        }
        let gone = RecordChange::delete(Kind::KeptRun, key(run)).expecting(Expected::Present);
        match self.store.commit(Batch::of_records([gone])).await {
            Ok(()) => Ok(true),
            Err(StoreError::Moved { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What was kept in a place.
    pub async fn list(&self, place: &Scope) -> Result<Vec<KeptRun>, StoreError> {
        let all = RecordQuery::all(Kind::KeptRun, Within::Place(place.clone()));
        self.store.scan(&all).await?.iter().map(Record::read).collect()
    }
}
