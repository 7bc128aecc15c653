//! Standing members, in memory.

use std::collections::BTreeSet;

use async_trait::async_trait;

use callboard_protocol::{
    AgentRosterEntry, ProviderUsage, RosterId, Tenant, Timestamp, WorkflowId,
};

use super::{InMemoryStore, Tables};
use crate::budget::Purse;
use crate::records::{IndexEntry, Key, Kind};
use crate::roster::{Roster, Spent, StoredMember, USAGE};
use crate::store::{KeyMode, Scope, StoreError};

impl Tables {
    /// In the order of their hiring, which is the order of the list.
    fn visible_members(&self, viewer: &Scope) -> impl Iterator<Item = &StoredMember> {
        self.roster.iter().filter(move |member| member.is_visible_to(viewer))
    }

    pub(super) fn place_of(&self, scope: &Scope, id: &RosterId) -> Option<usize> {
        self.roster
            .iter()
            .position(|member| member.is_visible_to(scope) && member.entry.roster_id == *id)
    }
}

#[async_trait]
impl Roster for InMemoryStore {
    async fn member(
        &self,
        viewer: &Scope,
        id: &RosterId,
    ) -> Result<Option<StoredMember>, StoreError> {
        let tables = self.tables();
        let found = tables.visible_members(viewer).find(|member| member.entry.roster_id == *id);
        Ok(found.cloned())
    }

    async fn members(&self, viewer: &Scope) -> Result<Vec<StoredMember>, StoreError> {
        Ok(self.tables().visible_members(viewer).cloned().collect())
    }

    async fn owners_of(
        &self,
        viewer: &Scope,
        workflow: &WorkflowId,
    ) -> Result<Vec<StoredMember>, StoreError> {
        let tables = self.tables();
        let owners = tables.visible_members(viewer).filter(|member| member.entry.owns(workflow));
        Ok(owners.cloned().collect())
    }

    async fn tenants_owning(
        &self,
        mode: KeyMode,
        workflow: &WorkflowId,
    ) -> Result<Vec<Tenant>, StoreError> {
        let tables = self.tables();
        let owners = tables.roster.iter();
        let owners = owners.filter(|member| member.mode == mode && member.entry.owns(workflow));
        let tenants: BTreeSet<Tenant> =
            owners.map(|member| member.entry.owner.tenant_id.clone()).collect();
        Ok(tenants.into_iter().collect())
    }

    async fn hire(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let is_taken = tables.roster.iter().any(|member| {
            member.entry.owner.tenant_id == entry.owner.tenant_id
                && member.entry.roster_id == entry.roster_id
        });
        if is_taken {
            return Err(StoreError::Moved { what: entry.roster_id.to_string() });
        }
        tables.roster.push(StoredMember { entry, mode, version: 1, hired_at: at });
        Ok(())
    }

    async fn change(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        expected: u64,
        _at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let scope = Scope { tenant: entry.owner.tenant_id.clone(), workspace: None, mode };
        let place = tables.place_of(&scope, &entry.roster_id);
        let place = place.filter(|place| tables.roster[*place].version == expected);
        let Some(place) = place else {
            return Err(StoreError::Moved { what: entry.roster_id.to_string() });
        };
        let hired_at = tables.roster[place].hired_at;
        tables.roster[place] = StoredMember { entry, mode, version: expected + 1, hired_at };
        Ok(())
    }

    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError> {
        let tables = self.tables();
        let runs = tables.runs.values().filter(|run| {
            scope.sees(&run.birth)
                && run.member() == Some(member)
                && run.birth.created_at >= since
                && !run.birth.is_replay()
        });
        let usages = runs.flat_map(|run| run.rows.iter().filter(|row| row.kind == USAGE));
        let mut spent = Spent::default();
        for row in usages {
            let told: Result<ProviderUsage, _> = serde_json::from_str(&row.payload);
            spent.add(told.map(|told| Spent::of(&told)).unwrap_or_default());
        }
        Ok(spent)
    }

    async fn dismiss(&self, scope: &Scope, id: &RosterId) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let Some(place) = tables.place_of(scope, id) else { return Ok(false) };
        tables.roster.remove(place);
        let Scope { tenant, mode, .. } = scope;
        tables.forget_work(tenant, id);
        let purse = Purse { tenant: tenant.clone(), mode: *mode, member: Some(id.clone()) };
        tables.allowances.remove(&purse);
        tables.unplace(tenant, id);
        tables.forget_heartbeats(tenant, id);
        let theirs = Key::in_realm(&scope.realm(), [id.as_str()]).as_str().to_owned();
        tables.records.forget(Kind::Schedule, &IndexEntry { name: "member", value: theirs });
        tables.forget_queue(scope, id);
        Ok(true)
    }
}
