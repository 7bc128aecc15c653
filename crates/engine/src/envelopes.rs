//! What became of envelopes, with the events that follow from them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{RunId, Tenant, Timestamp};

use crate::records::{Expected, Key, Kind, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, KeyMode, Scope, Store, StoreError};

/// What became of envelopes, by run and correlation: asked again, also after a crash, the answer is the same.
#[derive(Debug, Clone)]
pub struct Envelopes {
    store: Arc<dyn Store>,
}

/// Which envelope of whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvelopeId {
    pub tenant: Tenant,
    pub run: RunId,
    pub correlation: String,
}

impl EnvelopeId {
    fn key(&self) -> Key {
        Key::of([self.tenant.as_str(), self.run.as_str(), &self.correlation])
    }
}

/// An outcome as it is kept: JSON, whose format answers for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptEnvelope {
    /// The envelope's type.
    pub kind: String,
    pub outcome: String,
}

/// An event beside a run's log. An old reader shows kinds that it does not know, and nobody writes over one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectedEvent {
    pub at: Timestamp,
    /// JSON: everything of an event but its place.
    pub body: String,
}

/// Everything that was projected onto one run, in its order.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Projection {
    events: Vec<ProjectedEvent>,
}

impl Envelopes {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn envelope(&self, id: &EnvelopeId) -> Result<Option<KeptEnvelope>, StoreError> {
        let record = self.store.get(Kind::Envelope, &id.key()).await?;
        record.map(|record| record.read()).transpose()
    }

    /// Keeps an outcome with its events, or neither. If one was there before, that is the answer, and nothing is kept.
    pub async fn keep_envelope(
        &self,
        id: &EnvelopeId,
        kept: KeptEnvelope,
        events: Vec<ProjectedEvent>,
    ) -> Result<Option<KeptEnvelope>, StoreError> {
        retry_moved(|| self.try_to_keep(id, &kept, &events)).await
    }

    async fn try_to_keep(
        &self,
        id: &EnvelopeId,
        kept: &KeptEnvelope,
        events: &[ProjectedEvent],
    ) -> Result<Option<KeptEnvelope>, StoreError> {
        if let Some(first) = self.envelope(id).await? {
            return Ok(Some(first));
        }
        let new = RecordChange::put(Kind::Envelope, id.key(), place(&id.tenant), kept)?
            .expecting(Expected::Absent);
        let events = self.projecting(&id.tenant, &id.run, events).await?;
        self.store.commit(Batch::of_records([new].into_iter().chain(events))).await?;
        Ok(None)
    }

    /// Keeps events alone.
    pub async fn project(
        &self,
        tenant: &Tenant,
        run: &RunId,
        events: Vec<ProjectedEvent>,
    ) -> Result<(), StoreError> {
        let attempt = || async {
            let change = self.projecting(tenant, run, &events).await?;
            self.store.commit(Batch::of_records(change)).await
        };
        retry_moved(attempt).await
    }

    /// The events that were projected onto a run, in their order.
    pub async fn projected(
        &self,
        tenant: &Tenant,
        run: &RunId,
    ) -> Result<Vec<ProjectedEvent>, StoreError> {
        Ok(self.projection(tenant, run).await?.0.events)
    }

    /// Forgets what was projected onto runs of a tenant; outcomes stay.
    pub async fn forget_projected(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let all = RecordQuery::all(Kind::Projection, Within::Place(place(tenant)));
        let records = self.store.scan(&all).await?.into_iter();
        let forget = records.map(|record| RecordChange::delete(Kind::Projection, record.key));
        self.store.commit(Batch::of_records(forget)).await
    }

    /// The change that adds events to what was projected onto a run; none where there are none.
    async fn projecting(
        &self,
        tenant: &Tenant,
        run: &RunId,
        events: &[ProjectedEvent],
    ) -> Result<Option<RecordChange>, StoreError> {
        if events.is_empty() {
            return Ok(None);
        }
        let (mut projection, expected) = self.projection(tenant, run).await?;
        projection.events.extend_from_slice(events);
        let key = projection_key(tenant, run);
        let change = RecordChange::put(Kind::Projection, key, place(tenant), &projection)?;
        Ok(Some(change.expecting(expected)))
    }

    async fn projection(
        &self,
        tenant: &Tenant,
        run: &RunId,
    ) -> Result<(Projection, Expected), StoreError> {
        match self.store.get(Kind::Projection, &projection_key(tenant, run)).await? {
            Some(record) => Ok((record.read()?, Expected::Version(record.version))),
            None => Ok((Projection::default(), Expected::Absent)),
        }
    }
}

/// What envelopes come to is the same for every workspace and kind of key of a tenant.
fn place(tenant: &Tenant) -> Scope {
    Scope { tenant: tenant.clone(), workspace: None, mode: KeyMode::Live }
}

fn projection_key(tenant: &Tenant, run: &RunId) -> Key {
    Key::of([tenant.as_str(), run.as_str()])
}
