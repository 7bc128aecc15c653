//! Heartbeats in memory.

use async_trait::async_trait;

use callboard_protocol::{HeartbeatId, RosterId, Tenant, Timestamp};

use super::{InMemoryStore, Tables};
use crate::heartbeats::{DueHeartbeats, Heartbeat, Heartbeats};
use crate::store::{NewRun, Scope, StoreError};

impl Tables {
    pub(super) fn forget_heartbeats(&mut self, tenant: &Tenant, member: &RosterId) {
        self.heartbeats.retain(|heartbeat| {
            heartbeat.place.tenant != *tenant || heartbeat.roster_id.as_ref() != Some(member)
        });
    }
}

fn moved(id: &HeartbeatId) -> StoreError {
    StoreError::Moved { what: format!("heartbeat {id}") }
}

/// Ids are a tenant's own, for test keys and live keys apart.
fn is_same(a: &Heartbeat, b: &Heartbeat) -> bool {
    a.id == b.id && a.place.tenant == b.place.tenant && a.place.mode == b.place.mode
}

#[async_trait]
impl Heartbeats for InMemoryStore {
    async fn add_heartbeat(&self, heartbeat: Heartbeat) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.heartbeats.iter().any(|known| is_same(known, &heartbeat)) {
            return Err(moved(&heartbeat.id));
        }
        tables.heartbeats.push(heartbeat);
        Ok(())
    }

    async fn heartbeat(
        &self,
        scope: &Scope,
        id: &HeartbeatId,
    ) -> Result<Option<Heartbeat>, StoreError> {
        let tables = self.tables();
        let mut known = tables.heartbeats.iter();
        Ok(known.find(|known| known.id == *id && scope.includes(&known.place)).cloned())
    }

    async fn heartbeats(&self, scope: &Scope) -> Result<Vec<Heartbeat>, StoreError> {
        let tables = self.tables();
        let seen = tables.heartbeats.iter().filter(|known| scope.includes(&known.place));
        let mut seen: Vec<Heartbeat> = seen.cloned().collect();
        seen.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(seen)
    }

    async fn remove_heartbeat(&self, scope: &Scope, id: &HeartbeatId) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let before = tables.heartbeats.len();
        tables.heartbeats.retain(|known| known.id != *id || !scope.includes(&known.place));
        Ok(tables.heartbeats.len() < before)
    }

    async fn due_heartbeats(
        &self,
        at: Timestamp,
        most: usize,
    ) -> Result<DueHeartbeats, StoreError> {
        let tables = self.tables();
        let mut waiting: Vec<(Timestamp, &Heartbeat)> =
            tables.heartbeats.iter().filter_map(|known| Some((known.wake_at?, known))).collect();
        waiting.sort_by_key(|(wake_at, _)| *wake_at);
        let due = waiting.iter().filter(|(wake_at, _)| *wake_at <= at).take(most);
        let next = waiting.iter().map(|(wake_at, _)| *wake_at).find(|wake_at| *wake_at > at);
        Ok(DueHeartbeats { heartbeats: due.map(|(_, known)| (*known).clone()).collect(), next })
    }

    async fn advance_heartbeat(
        &self,
        heartbeat: Heartbeat,
        expected: u64,
        run: Option<NewRun>,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let place = tables.heartbeats.iter().position(|known| is_same(known, &heartbeat));
        let place = place.filter(|place| tables.heartbeats[*place].version == expected);
        let Some(place) = place else { return Err(moved(&heartbeat.id)) };
        if let Some(run) = run {
            tables.create(run)?;
        }
        tables.heartbeats[place] = heartbeat;
        Ok(())
    }
}
