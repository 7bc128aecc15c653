//! Installed packs, in memory.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;

use super::InMemoryStore;
use crate::packs::{PackId, Packs, PutPack, StoredPack};
use crate::store::StoreError;

#[async_trait]
impl Packs for InMemoryStore {
    async fn put_pack(&self, pack: StoredPack, archive: Arc<[u8]>) -> Result<PutPack, StoreError> {
        match self.tables().packs.entry(pack.id.clone()) {
            Entry::Vacant(place) => {
                place.insert((pack, archive));
                Ok(PutPack::Created)
            }
            Entry::Occupied(there) if there.get().0.digest == pack.digest => Ok(PutPack::Unchanged),
            Entry::Occupied(_) => Ok(PutPack::Conflict),
        }
    }

    async fn all_packs(&self) -> Result<Vec<StoredPack>, StoreError> {
        Ok(self.tables().packs.values().map(|(pack, _)| pack.clone()).collect())
    }

    async fn pack_archive(&self, id: &PackId) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.tables().packs.get(id).map(|(_, archive)| archive.clone()))
    }

    async fn remove_pack(&self, id: &PackId) -> Result<bool, StoreError> {
        Ok(self.tables().packs.remove(id).is_some())
    }
}
