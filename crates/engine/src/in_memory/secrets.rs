//! Secrets of tenants, in memory.

use async_trait::async_trait;

use callboard_core::SecretText;
use callboard_protocol::{SecretName, Timestamp};

use super::InMemoryStore;
use crate::registry::Put;
use crate::secrets::{Secrets, StoredSecret};
use crate::store::{Scope, StoreError};

#[async_trait]
impl Secrets for InMemoryStore {
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<SecretText>, StoreError> {
        let tables = self.tables();
        let found = tables.secrets.get(&(place.clone(), name.clone()));
        Ok(found.map(|(_, value)| value.clone()))
    }

    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        value: SecretText,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let mut tables = self.tables();
        let key = (place.clone(), name.clone());
        let before = tables.secrets.get(&key).map(|(stored, _)| stored.created_at);
        let created_at = before.unwrap_or(at);
        let stored = StoredSecret { name: name.clone(), created_at, updated_at: at };
        tables.secrets.insert(key, (stored, value));
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
