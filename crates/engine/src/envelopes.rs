//! The port to what became of envelopes, with the events that follow from them.

use std::fmt;

use async_trait::async_trait;

use callboard_protocol::{RunId, Tenant, Timestamp};

use crate::store::StoreError;

/// What became of envelopes, by run and correlation. Whoever is asked about one again says the same, also after a crash.
#[async_trait]
pub trait Envelopes: fmt::Debug + Send + Sync {
    async fn envelope(&self, id: &EnvelopeId) -> Result<Option<KeptEnvelope>, StoreError>;

    /// Keeps an outcome with its events, or neither. If one was there before, that is the answer, and nothing is kept.
    async fn keep_envelope(
        &self,
        id: &EnvelopeId,
        kept: KeptEnvelope,
        events: Vec<ProjectedEvent>,
    ) -> Result<Option<KeptEnvelope>, StoreError>;

    /// Keeps events alone.
    async fn project(
        &self,
        tenant: &Tenant,
        run: &RunId,
        events: Vec<ProjectedEvent>,
    ) -> Result<(), StoreError>;

    /// The events that were projected onto a run, in their order.
    async fn projected(
        &self,
        tenant: &Tenant,
        run: &RunId,
    ) -> Result<Vec<ProjectedEvent>, StoreError>;

    /// Forgets what was projected onto runs of a tenant; outcomes stay.
    async fn forget_projected(&self, tenant: &Tenant) -> Result<(), StoreError>;
}

/// Which envelope of whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvelopeId {
    pub tenant: Tenant,
    pub run: RunId,
    pub correlation: String,
}

/// An outcome as it is kept: JSON, whose format answers for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptEnvelope {
    /// The envelope's type.
    pub kind: String,
    pub outcome: String,
}

/// An event beside a run's log. An old reader shows kinds that it does not know, and nobody writes over one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedEvent {
    pub at: Timestamp,
    /// JSON: everything of an event but its place.
    pub body: String,
}
