//! Workflow definitions and keys in memory.

use std::sync::Arc;

use async_trait::async_trait;

use callboard_protocol::{KeyId, Tenant, Timestamp, WorkflowId};

use super::InMemoryStore;
use crate::records::RecordChange;
use crate::registry::{Keys, Made, Put, StoredKey, StoredWorkflow, Workflows};
use crate::store::{Realm, Scope, StoreError};

#[async_trait]
impl Workflows for InMemoryStore {
    async fn workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
    ) -> Result<Option<StoredWorkflow>, StoreError> {
        Ok(self.tables().workflows.get(&(place.clone(), id.clone())).cloned())
    }

    async fn workflows(&self, place: &Scope) -> Result<Vec<StoredWorkflow>, StoreError> {
        let tables = self.tables();
        Ok(tables
            .workflows
            .iter()
            .filter(|((there, _), _)| there == place)
            .map(|(_, stored)| stored.clone())
            .collect())
    }

    async fn put_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        source: Arc<str>,
        records: Vec<RecordChange>,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let stored = StoredWorkflow::new(id.clone(), source, at);
        let mut tables = self.tables();
        tables.records.check(&records)?;
        tables.records.apply(records);
        let replaced = tables.workflows.insert((place.clone(), id.clone()), stored);
        Ok(if replaced.is_some() { Put::Replaced } else { Put::Created })
    }

    async fn delete_workflow(
        &self,
        place: &Scope,
        id: &WorkflowId,
        records: Vec<RecordChange>,
    ) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        tables.records.check(&records)?;
        let removed = tables.workflows.remove(&(place.clone(), id.clone())).is_some();
        if removed {
            tables.records.apply(records);
        }
        Ok(removed)
    }
}

#[async_trait]
impl Keys for InMemoryStore {
    async fn all_keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        Ok(self.tables().keys.values().cloned().collect())
    }

    async fn put_key(&self, key: StoredKey) -> Result<(), StoreError> {
        self.tables().keys.insert(key.id.clone(), key);
        Ok(())
    }

    async fn revoke_key(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let Some(key) = tables.keys.get_mut(id).filter(|key| key.tenant == *tenant) else {
            return Ok(false);
        };
        // Revoking twice keeps the time at which the key really stopped working.
        key.revoked_at.get_or_insert(at);
        Ok(true)
    }

    async fn note_maker(&self, realm: &Realm, made: Made, maker: &KeyId) -> Result<(), StoreError> {
        self.tables().makers.insert((realm.clone(), made), maker.clone());
        Ok(())
    }

    async fn noted_of(&self, realm: &Realm, maker: &KeyId) -> Result<Vec<Made>, StoreError> {
        let tables = self.tables();
        let theirs = tables.makers.iter().filter(|((there, _), by)| there == realm && *by == maker);
        Ok(theirs.map(|((_, made), _)| made.clone()).collect())
    }
}
