//! Members' work items, in memory.

use async_trait::async_trait;

use callboard_protocol::{RosterId, Tenant};

use super::{InMemoryStore, Tables};
use crate::store::StoreError;
use crate::triggers::Subscription;
use crate::work::{FiredWork, StoredWork, Waits, Work, WorkChange};

#[derive(Debug)]
pub(super) struct KeptWork {
    tenant: Tenant,
    work: StoredWork,
    waits: Option<Waits>,
}

impl Tables {
    pub(super) fn forget_work(&mut self, tenant: &Tenant, member: &RosterId) {
        self.work.retain(|kept| !kept.is_of(tenant, member));
    }

    fn work_of(&self, tenant: &Tenant, member: &RosterId) -> impl Iterator<Item = &StoredWork> {
        self.work.iter().filter(|kept| kept.is_of(tenant, member)).map(|kept| &kept.work)
    }

    /// Whether a member that waits for nothing else takes an item now.
    fn takes_work(&self, tenant: &Tenant, member: &RosterId, waits: &Waits) -> bool {
        let place = self.place_of(tenant, member);
        let queue = Subscription::work_queue_id(tenant, member, waits.mode);
        place.is_some_and(|place| self.roster[place].entry.enabled) && self.inbound.is_open(&queue)
    }
}

impl KeptWork {
    fn is_of(&self, tenant: &Tenant, member: &RosterId) -> bool {
        self.tenant == *tenant && self.work.item.roster_id == *member
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
        let WorkChange { tenant, item, expected, waits } = change;
        let mut tables = self.tables();
        if let Some(FiredWork { run, .. }) = &fired {
            tables.refuse_repetition(run.outcome.as_ref(), run.birth.created_at)?;
        }
        let place = tables.work.iter().position(|kept| {
            kept.is_of(&tenant, &item.roster_id) && kept.work.item.work_id == item.work_id
        });
        let version = place.map_or(0, |place| tables.work[place].work.version);
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
        let kept = KeptWork { tenant, work: StoredWork { item, version: version + 1 }, waits };
        match place {
            Some(place) => tables.work[place] = kept,
            None => tables.work.push(kept),
        }
        Ok(())
    }

    async fn startable_work(&self, most: usize) -> Result<Vec<(StoredWork, Waits)>, StoreError> {
        let tables = self.tables();
        let waiting = tables.work.iter().filter_map(|kept| {
            let waits = kept.waits.as_ref()?;
            let takes = tables.takes_work(&kept.tenant, &kept.work.item.roster_id, waits);
            takes.then(|| (kept.work.clone(), waits.clone()))
        });
        Ok(waiting.take(most).collect())
    }
}
