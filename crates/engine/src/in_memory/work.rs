//! Members' work items, in memory.

use async_trait::async_trait;

use callboard_protocol::{RosterId, Tenant};

use super::{InMemoryStore, Tables};
use crate::store::StoreError;
use crate::work::{FiredWork, StoredWork, Work, WorkChange};

impl Tables {
    pub(super) fn forget_work(&mut self, tenant: &Tenant, member: &RosterId) {
        self.work.retain(|(owner, stored)| owner != tenant || stored.item.roster_id != *member);
    }

    fn work_of(&self, tenant: &Tenant, member: &RosterId) -> impl Iterator<Item = &StoredWork> {
        let is_theirs = move |(owner, stored): &&(Tenant, StoredWork)| {
            owner == tenant && stored.item.roster_id == *member
        };
        self.work.iter().filter(is_theirs).map(|(_, stored)| stored)
    }
}

#[async_trait]
impl Work for InMemoryStore {
    async fn work(
        &self,
        tenant: &Tenant,
        member: &RosterId,
    ) -> Result<Vec<StoredWork>, StoreError> {
        Ok(self.tables().work_of(tenant, member).cloned().collect())
    }

    async fn work_item(
        &self,
        tenant: &Tenant,
        member: &RosterId,
        id: &str,
    ) -> Result<Option<StoredWork>, StoreError> {
        let tables = self.tables();
        Ok(tables.work_of(tenant, member).find(|stored| stored.item.work_id == id).cloned())
    }

    async fn put_work(
        &self,
        change: WorkChange,
        fired: Option<FiredWork>,
    ) -> Result<(), StoreError> {
        let WorkChange { tenant, item, expected } = change;
        let mut tables = self.tables();
        if let Some(FiredWork { run, .. }) = &fired {
            tables.refuse_repetition(run.outcome.as_ref(), run.birth.created_at)?;
        }
        let place = tables.work.iter().position(|(owner, stored)| {
            *owner == tenant
                && stored.item.roster_id == item.roster_id
                && stored.item.work_id == item.work_id
        });
        let version = place.map_or(0, |place| tables.work[place].1.version);
        if version != expected || tables.place_of(&tenant, &item.roster_id).is_none() {
            return Err(StoreError::Moved { what: format!("work item {}", item.work_id) });
        }
        if let Some(FiredWork { queue, arrival, run }) = fired {
            if !tables.inbound.takes(&queue, &arrival) {
                return Err(StoreError::Moved { what: queue.id });
            }
            tables.create(run)?;
            tables.inbound.take(queue, arrival);
        }
        let stored = StoredWork { item, version: version + 1 };
        match place {
            Some(place) => tables.work[place].1 = stored,
            None => tables.work.push((tenant, stored)),
        }
        Ok(())
    }
}
