//! Heartbeats as records of a tenant, due at the next observation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{HeartbeatId, RosterId, Timestamp, WorkflowId};

use super::heartbeat::{DueHeartbeats, Heartbeat, HeartbeatState};
use crate::records::{Expected, Key, Kind, MEMBER, Record, RecordChange, RecordQuery, Within};
use crate::store::{Batch, NewRun, Realm, Scope, Store, StoreError};

/// The heartbeats of all tenants. A change names the version that was read.
#[derive(Debug, Clone)]
pub struct Heartbeats {
    store: Arc<dyn Store>,
}

/// What the record itself does not say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    id: HeartbeatId,
    workflow: WorkflowId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster_id: Option<RosterId>,
    state: HeartbeatState,
}

/// Ids are a tenant's own, for test keys and live keys apart.
fn key(realm: &Realm, id: &HeartbeatId) -> Key {
    Key::in_realm(realm, [id.as_str()])
}

fn read(record: &Record) -> Result<Heartbeat, StoreError> {
    let Body { id, workflow, roster_id, state } = record.read()?;
    let (place, version, wake_at) = (record.place.clone(), record.version, record.due_at);
    Ok(Heartbeat { id, place, workflow, roster_id, version, wake_at, state })
}

fn put(heartbeat: Heartbeat) -> Result<RecordChange, StoreError> {
    let Heartbeat { id, place, workflow, roster_id, version: _, wake_at, state } = heartbeat;
    let (key, realm) = (key(&place.realm(), &id), place.realm());
    let by_member = roster_id.as_ref().map(|member| MEMBER.of(&realm, member.as_str()));
    let body = Body { id, workflow, roster_id, state };
    let put = RecordChange::put(Kind::Heartbeat, key, place, &body)?.due(wake_at);
    Ok(put.found_by(by_member))
}

impl Heartbeats {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Keeps a new heartbeat. An id that is taken is [`StoreError::Moved`].
    pub async fn add_heartbeat(&self, heartbeat: Heartbeat) -> Result<(), StoreError> {
        let new = put(heartbeat)?.expecting(Expected::Absent);
        self.store.commit(Batch::of_records([new])).await
    }

    pub async fn heartbeat(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
    ) -> Result<Option<Heartbeat>, StoreError> {
        let found = self.store.get(Kind::Heartbeat, &key(&scope.realm(), id)).await?;
        found.filter(|record| scope.includes(&record.place)).as_ref().map(read).transpose()
    }

    /// All that the caller may see, in the order of their ids.
    pub async fn heartbeats(&self, scope: &Scope) -> Result<Vec<Heartbeat>, StoreError> {
        let all = RecordQuery::all(Kind::Heartbeat, Within::VisibleTo(scope.clone()));
        self.store.scan(&all).await?.iter().map(read).collect()
    }

    /// Answers whether there was one that the caller may see.
    pub async fn remove_heartbeat(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
    ) -> Result<bool, StoreError> {
        if self.heartbeat(scope, id).await?.is_none() {
            return Ok(false);
        }
        let delete = RecordChange::delete(Kind::Heartbeat, key(&scope.realm(), id));
        match self.store.commit(Batch::of_records([delete.expecting(Expected::Present)])).await {
            Err(StoreError::Moved { .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// Reads up to `most` heartbeats that are due by now, the longest due first.
    pub async fn due_heartbeats(
        &self,
        at: Timestamp,
        most: usize,
    ) -> Result<DueHeartbeats, StoreError> {
        let due = self.store.due(Kind::Heartbeat, at, most).await?;
        let heartbeats = due.records.iter().map(read).collect::<Result<_, _>>()?;
        Ok(DueHeartbeats { heartbeats, next: due.next })
    }

    /// Keeps a heartbeat's next state with the run that it starts, or neither. One that no longer has its version is
    /// [`StoreError::Moved`].
    pub async fn advance_heartbeat(
        &self,
        heartbeat: Heartbeat,
        run: Option<NewRun>,
    ) -> Result<(), StoreError> {
        let expected = Expected::Version(heartbeat.version);
        let batch = Batch::of_records([put(heartbeat)?.expecting(expected)]);
        self.store.commit(Batch { births: Vec::from_iter(run), ..batch }).await
    }
}
