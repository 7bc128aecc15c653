//! Registered workflow definitions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{Timestamp, WorkflowId};

use crate::catalog;
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, Scope, Store, StoreError};

/// Definitions, each in one place.
#[derive(Debug, Clone)]
pub struct Workflows {
    store: Arc<dyn Store>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Created,
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorkflow {
    pub id: WorkflowId,
    /// The definition exactly as it was sent.
    pub source: Arc<str>,
    /// Of the source. A definition may be large, and every run of it needs this.
    pub(crate) digest: String,
    pub updated_at: Timestamp,
}

impl StoredWorkflow {
    fn read(record: &Record) -> Result<Self, StoreError> {
        let Body { id, source, digest, updated_at } = record.read()?;
        Ok(Self { id, source: source.into(), digest, updated_at })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    id: WorkflowId,
    source: String,
    digest: String,
    updated_at: Timestamp,
}

fn key(place: &Scope, id: &WorkflowId) -> Key {
    Key::in_place(place, [id.as_str()])
}

impl Workflows {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<StoredWorkflow>, StoreError> {
        let record = self.store.get(Kind::Workflow, &key(place, id)).await?;
        record.as_ref().map(StoredWorkflow::read).transpose()
    }

    /// By id.
    pub async fn workflows(&self, place: &Scope) -> Result<Vec<StoredWorkflow>, StoreError> {
        let all = RecordQuery::all(Kind::Workflow, Within::Place(place.clone()));
        let records = self.store.scan(&all).await?;
        let mut workflows =
            records.iter().map(StoredWorkflow::read).collect::<Result<Vec<_>, _>>()?;
        workflows.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(workflows)
    }

    /// Stores the text verbatim, with the records that go with it; answers whether the id was new. Where somebody
    /// changed any of it first, it is [`StoreError::Moved`].
    pub async fn put_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        source: &str,
        records: Vec<RecordChange>,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let key = key(place, id);
        let before = self.store.get(Kind::Workflow, &key).await?;
        let (digest, source) = (catalog::digest(source), source.to_owned());
        let body = Body { id: id.clone(), source, digest, updated_at: at };
        let workflow = RecordChange::put(Kind::Workflow, key, place.clone(), &body)?;
        let workflow = workflow.expecting(Expected::of(before.as_ref()));
        self.store.commit(Batch::of_records([workflow].into_iter().chain(records))).await?;
        Ok(if before.is_some() { Put::Replaced } else { Put::Created })
    }

    /// Forgets it with the records that go with it; answers whether there was one. Where somebody changed any of it
    /// first, it is [`StoreError::Moved`].
    pub async fn delete_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        records: Vec<RecordChange>,
    ) -> Result<bool, StoreError> {
        let key = key(place, id);
        let Some(before) = self.store.get(Kind::Workflow, &key).await? else { return Ok(false) };
        let expected = Expected::Version(before.version);
        let gone = RecordChange::delete(Kind::Workflow, key).expecting(expected);
        self.store.commit(Batch::of_records([gone].into_iter().chain(records))).await?;
        Ok(true)
    }
}
