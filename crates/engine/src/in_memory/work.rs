//! Members' work items, in memory.

use async_trait::async_trait;

use callboard_protocol::{RosterId, Tenant};

use super::{InMemoryStore, Tables};
use crate::records::{Kind, Record, RecordChange, RecordQuery, Within};
use crate::store::{Scope, StoreError};
use crate::triggers::{Subscription, queue_changes};
use crate::work::{FiredWork, StoredWork, Waits, Work, WorkChange};

#[derive(Debug)]
pub(super) struct KeptWork {
    scope: Scope,
    work: StoredWork,
    waits: Option<Waits>,
}

impl Tables {
    pub(super) fn forget_work(&mut self, tenant: &Tenant, member: &RosterId) {
        self.work.retain(|kept| !kept.is_of(tenant, member));
    }

    fn work_of(&self, scope: &Scope, member: &RosterId) -> impl Iterator<Item = &StoredWork> {
        let is_seen = self.place_of(scope, member).is_some();
        let theirs = move |kept: &&KeptWork| is_seen && kept.is_of(&scope.tenant, member);
        self.work.iter().filter(theirs).map(|kept| &kept.work)
    }

    /// Whether a member that waits for nothing else takes an item now.
    fn takes_work(&self, scope: &Scope, member: &RosterId) -> bool {
        let place = self.place_of(scope, member);
        let queue = Subscription::work_queue_id(&scope.tenant, member, scope.mode);
        let standing = self.queue(&queue).and_then(|record| Subscription::read(record).ok());
        place.is_some_and(|place| self.roster[place].entry.enabled)
            && standing.is_none_or(|queue| queue.is_active())
    }

    /// A member's queue of work, if anything came over it.
    fn queue(&self, id: &str) -> Option<&Record> {
        self.records.get(Kind::Subscription, &Subscription::key(id))
    }

    /// A member's queue goes with it, and what came over it.
    pub(super) fn forget_queue(&mut self, scope: &Scope, member: &RosterId) {
        let queue = Subscription::work_queue_id(&scope.tenant, member, scope.mode);
        let key = Subscription::key(&queue);
        let over = RecordQuery::all(Kind::InboundDelivery, Within::Everywhere).below(key.clone());
        let over = self.records.scan(&over).into_iter();
        let over = over.map(|record| RecordChange::delete(record.kind, record.key));
        let gone = over.chain([RecordChange::delete(Kind::Subscription, key)]).collect();
        self.records.apply(gone);
    }
}

impl KeptWork {
    fn is_of(&self, tenant: &Tenant, member: &RosterId) -> bool {
        self.scope.tenant == *tenant && self.work.item.roster_id == *member
    }
}

#[async_trait]
impl Work for InMemoryStore {
    async fn work(&self, scope: &Scope, member: &RosterId) -> Result<Vec<StoredWork>, StoreError> {
        Ok(self.tables().work_of(scope, member).cloned().collect())
    }

    async fn work_item(
        &self,
        scope: &Scope,
        member: &RosterId,
        id: &str,
    ) -> Result<Option<StoredWork>, StoreError> {
        let tables = self.tables();
        Ok(tables.work_of(scope, member).find(|stored| stored.item.work_id == id).cloned())
    }

    async fn put_work(
        &self,
        change: WorkChange,
        fired: Option<FiredWork>,
    ) -> Result<(), StoreError> {
        let WorkChange { scope, item, expected, waits } = change;
        let mut tables = self.tables();
        if let Some(FiredWork { run, .. }) = &fired {
            tables.refuse_repetition(run.outcome.as_ref(), run.birth.created_at)?;
        }
        let place = tables.work.iter().position(|kept| {
            kept.is_of(&scope.tenant, &item.roster_id) && kept.work.item.work_id == item.work_id
        });
        let version = place.map_or(0, |place| tables.work[place].work.version);
        if version != expected || tables.place_of(&scope, &item.roster_id).is_none() {
            return Err(StoreError::Moved { what: format!("work item {}", item.work_id) });
        }
        if let Some(FiredWork { queue, delivery, run }) = fired {
            let changes = queue_changes(&queue, tables.queue(&queue.id), &delivery)?;
            tables.records.check(&changes)?;
            tables.create(run)?;
            tables.records.apply(changes);
        }
        let kept = KeptWork { scope, work: StoredWork { item, version: version + 1 }, waits };
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
            let takes = tables.takes_work(&kept.scope, &kept.work.item.roster_id);
            takes.then(|| (kept.work.clone(), waits.clone()))
        });
        Ok(waiting.take(most).collect())
    }
}
