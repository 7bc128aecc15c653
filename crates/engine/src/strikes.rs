//! Decisions about runs that did not come to their end, counted on disk: a run that ends the host each time is given up
//! by the next process.

use std::sync::Arc;

use callboard_protocol::RunId;
use serde::{Deserialize, Serialize};

use crate::records::{Expected, Key, Kind, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Scope, Store, StoreError};

/// How many decisions of a run were not finished. Removed with the run.
#[derive(Debug, Clone)]
pub struct Strikes {
    store: Arc<dyn Store>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    run: RunId,
    count: u32,
}

impl Strikes {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Counts one more; answers how many there are now.
    pub async fn add(&self, run: &RunId) -> Result<u32, StoreError> {
        self.change(run, |count| count + 1).await
    }

    /// Takes one of those back.
    pub async fn take_back(&self, run: &RunId) -> Result<(), StoreError> {
        self.change(run, |count| count.saturating_sub(1)).await?;
        Ok(())
    }

    /// The runs of which decisions are counted, with how many.
    pub async fn all(&self) -> Result<Vec<(RunId, u32)>, StoreError> {
        let all = RecordQuery::all(Kind::Strikes, Within::Everywhere);
        let all = self.store.scan(&all).await?;
        let read = all.iter().map(|record| record.read().map(|Body { run, count }| (run, count)));
        read.collect()
    }

    async fn change(&self, run: &RunId, to: impl Fn(u32) -> u32) -> Result<u32, StoreError> {
        retry_moved(|| async {
            let key = Key::of([run.as_str()]);
            let before = self.store.get(Kind::Strikes, &key).await?;
            let counted = match &before {
                Some(record) => record.read::<Body>()?.count,
                None => 0,
            };
            let count = to(counted);
            let change = match count {
                0 => RecordChange::delete(Kind::Strikes, key),
                _ => {
                    let body = Body { run: run.clone(), count };
                    RecordChange::put(Kind::Strikes, key, Scope::of_host(), &body)?.of_run(run)
                }
            };
            if count != counted {
                let change = change.expecting(Expected::of(before.as_ref()));
                self.store.commit(Batch::of_records([change])).await?;
            }
            Ok(count)
        })
        .await
    }
}
