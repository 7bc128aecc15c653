//! Installed packs, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::InMemoryStore;
use crate::packs::{PackId, Packs, PutPack, StoredPack};
use crate::store::{Digest, StoreError};

/// Every archive of a version stays, whether it is offered or not.
pub(super) type KeptPacks = BTreeMap<(PackId, Digest), (StoredPack, Arc<[u8]>)>;

#[async_trait]
impl Packs for InMemoryStore {
    async fn put_pack(&self, pack: StoredPack, archive: Arc<[u8]>) -> Result<PutPack, StoreError> {
        let packs = &mut self.tables().packs;
        let mut offered =
            packs.iter().filter(|((id, _), (it, _))| *id == pack.id && !it.is_removed);
        if offered.any(|((_, digest), _)| *digest != pack.digest) {
            return Ok(PutPack::Conflict);
        }
        let place = (pack.id.clone(), pack.digest);
        let Some((there, _)) = packs.get_mut(&place) else {
            packs.insert(place, (pack, archive));
            return Ok(PutPack::Created);
        };
        let was_removed = std::mem::take(&mut there.is_removed);
        if was_removed || there.verified_by.is_none() {
            there.signed_by = pack.signed_by;
            there.signature = pack.signature;
            there.verified_by = pack.verified_by;
        }
        Ok(if was_removed { PutPack::Created } else { PutPack::Unchanged })
    }

    async fn all_packs(&self) -> Result<Vec<StoredPack>, StoreError> {
        Ok(self.tables().packs.values().map(|(pack, _)| pack.clone()).collect())
    }

    async fn pack_archive(
        &self,
        id: &PackId,
        digest: &Digest,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        let place = (id.clone(), *digest);
        Ok(self.tables().packs.get(&place).map(|(_, archive)| archive.clone()))
    }

    async fn remove_pack(&self, id: &PackId) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let mut offered = tables.packs.values_mut().map(|(pack, _)| pack);
        let there = offered.find(|pack| pack.id == *id && !pack.is_removed);
        Ok(there.map(|pack| pack.is_removed = true).is_some())
    }
}
