//! Secrets of tenants, in memory.

use async_trait::async_trait;

use callboard_protocol::{SecretName, Timestamp};

use super::InMemoryStore;
use crate::registry::Put;
use crate::secrets::{HeldSecret, Secrets, StoredSecret};
use crate::store::{Scope, StoreError};

#[async_trait]
impl Secrets for InMemoryStore {
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        let tables = self.tables();
        let found = tables.secrets.get(&(place.clone(), name.clone()));
        Ok(found.map(|(_, secret)| secret.clone()))
    }

    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let mut tables = self.tables();
        let key = (place.clone(), name.clone());
        let before = tables.secrets.get(&key).map(|(stored, _)| stored.created_at);
        let created_at = before.unwrap_or(at);
        let (name, provenance) = (name.clone(), secret.provenance.clone());
        let stored = StoredSecret { name, provenance, created_at, updated_at: at };
        tables.secrets.insert(key, (stored, secret));
        Ok(if before.is_none() { Put::Created } else { Put::Replaced })
    }

    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        let tables = self.tables();
        let own = tables.secrets.iter();
        let own = own.filter(|((there, _), _)| there == place);
        Ok(own.map(|(_, (stored, _))| stored.clone()).collect())
    }

    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError> {
        Ok(self.tables().secrets.remove(&(place.clone(), name.clone())).is_some())
    }
}
