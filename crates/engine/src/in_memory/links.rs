//! Generations of link secrets.

use async_trait::async_trait;

use super::InMemoryStore;
use crate::registry::LinkSecrets;
use crate::store::{Realm, StoreError};

#[async_trait]
impl LinkSecrets for InMemoryStore {
    async fn link_generation(&self, realm: &Realm) -> Result<u32, StoreError> {
        Ok(self.tables().link_generations.get(realm).copied().unwrap_or(0))
    }

    async fn rotate_links(&self, realm: &Realm) -> Result<u32, StoreError> {
        let mut tables = self.tables();
        let generation = tables.link_generations.entry(realm.clone()).or_default();
        *generation += 1;
        Ok(*generation)
    }

    /// No secret at all, but another one for every tenant and generation: a store for tests guards nothing.
    fn link_secret(&self, realm: &Realm, generation: u32) -> [u8; 32] {
        let mut secret = [0; 32];
        let said = format!("{generation}/{}/{}", realm.mode.as_str(), realm.tenant);
        for (byte, from) in secret.iter_mut().zip(said.bytes()) {
            *byte = from;
        }
        secret
    }
}
