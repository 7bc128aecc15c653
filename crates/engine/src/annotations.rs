//! What people say of runs: records beside the logs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{Annotation, RunId};

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Scope, Store, StoreError};

/// Annotations by run. A run that the caller may not see has none and takes none.
#[derive(Debug, Clone)]
pub struct Annotations {
    store: Arc<dyn Store>,
}

/// What became of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotated {
    Kept,
    UnknownRun,
    TooMany,
}

/// What the annotations of one run are found by.
const RUN: &str = "run";

#[derive(Serialize, Deserialize)]
struct Body {
    /// How many the run had before this one.
    ordinal: usize,
    annotation: Annotation,
}

/// So many digits that the order of keys is the order in which they came.
fn key(run: &RunId, ordinal: usize) -> Key {
    Key::of([run.as_str(), &format!("{ordinal:010}")])
}

impl Annotations {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Keeps an annotation, unless its run has `most` of them already.
    pub async fn annotate(
        &self,
        scope: &Scope,
        annotation: Annotation,
        most: usize,
    ) -> Result<Annotated, StoreError> {
        retry_moved(|| self.try_to_annotate(scope, &annotation, most)).await
    }

    async fn try_to_annotate(
        &self,
        scope: &Scope,
        annotation: &Annotation,
        most: usize,
    ) -> Result<Annotated, StoreError> {
        let run = &annotation.target.run_id;
        if self.store.find(scope, run).await?.is_none() {
            return Ok(Annotated::UnknownRun);
        }
        let last = self.store.scan(&of_run(run).descending().limit(1)).await?;
        let last = last.first().map(Record::read::<Body>).transpose()?;
        let ordinal = last.map_or(0, |last| last.ordinal + 1);
        if ordinal >= most {
            return Ok(Annotated::TooMany);
        }
        let body = Body { ordinal, annotation: annotation.clone() };
        let new = RecordChange::put(Kind::Annotation, key(run, ordinal), scope.clone(), &body)?
            .expecting(Expected::Absent)
            .indexed(RUN, run.as_str())
            .of_run(run);
        self.store.commit(Batch::of_records([new])).await?;
        Ok(Annotated::Kept)
    }

    /// The annotations of a run in the order in which they came; none if there is no such run for this caller.
    pub async fn annotations(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Annotation>>, StoreError> {
        if self.store.find(scope, run).await?.is_none() {
            return Ok(None);
        }
        let records = self.store.scan(&of_run(run)).await?;
        let annotations = records.iter().map(|record| Ok(record.read::<Body>()?.annotation));
        annotations.collect::<Result<_, _>>().map(Some)
    }
}

/// A caller that may see a run may see all annotations of it.
fn of_run(run: &RunId) -> RecordQuery {
    RecordQuery::all(Kind::Annotation, Within::Everywhere).with(RUN, run.as_str())
}
