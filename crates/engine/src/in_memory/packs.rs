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
            Entry::Occupied(mut there) if there.get().0.digest == pack.digest => {
                let was_removed = std::mem::take(&mut there.get_mut().0.is_removed);
                Ok(if was_removed { PutPack::Created } else { PutPack::Unchanged })
            }
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
        let mut tables = self.tables();
        let there = tables.packs.get_mut(id).filter(|(pack, _)| !pack.is_removed);
        Ok(there.map(|(pack, _)| pack.is_removed = true).is_some())
    }
}
