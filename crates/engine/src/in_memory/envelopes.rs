//! Outcomes of envelopes in memory.

use async_trait::async_trait;

use callboard_protocol::{RunId, Tenant};

use super::InMemoryStore;
use crate::envelopes::{EnvelopeId, Envelopes, KeptEnvelope, ProjectedEvent};
use crate::store::StoreError;

#[async_trait]
impl Envelopes for InMemoryStore {
    async fn envelope(&self, id: &EnvelopeId) -> Result<Option<KeptEnvelope>, StoreError> {
        Ok(self.tables().envelopes.get(id).cloned())
    }

    async fn keep_envelope(
        &self,
        id: &EnvelopeId,
        kept: KeptEnvelope,
        events: Vec<ProjectedEvent>,
    ) -> Result<Option<KeptEnvelope>, StoreError> {
        let mut tables = self.tables();
        if let Some(first) = tables.envelopes.get(id) {
            return Ok(Some(first.clone()));
        }
        tables.envelopes.insert(id.clone(), kept);
        let key = (id.tenant.clone(), id.run.clone());
        tables.projected.entry(key).or_default().extend(events);
        Ok(None)
    }

    async fn project(
        &self,
        tenant: &Tenant,
        run: &RunId,
        events: Vec<ProjectedEvent>,
    ) -> Result<(), StoreError> {
        let key = (tenant.clone(), run.clone());
        self.tables().projected.entry(key).or_default().extend(events);
        Ok(())
    }

    async fn projected(
        &self,
        tenant: &Tenant,
        run: &RunId,
    ) -> Result<Vec<ProjectedEvent>, StoreError> {
        let key = (tenant.clone(), run.clone());
        Ok(self.tables().projected.get(&key).cloned().unwrap_or_default())
    }

    async fn forget_projected(&self, tenant: &Tenant) -> Result<(), StoreError> {
        self.tables().projected.retain(|(of, _), _| of != tenant);
        Ok(())
    }
}
