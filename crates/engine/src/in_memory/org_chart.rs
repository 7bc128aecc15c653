//! Charts of who stands where, in memory.

use async_trait::async_trait;

use callboard_protocol::{AgentOrgChart, Owner, RosterId, RosterOwner, Tenant, Timestamp};

use super::{InMemoryStore, Tables};
use crate::org_chart::{OrgCharts, StoredChart};
use crate::store::StoreError;

impl Tables {
    /// Takes somebody out of every chart of their tenant.
    pub(super) fn unplace(&mut self, tenant: &Tenant, id: &RosterId) {
        for stored in self.charts.iter_mut().filter(|it| it.chart.owner.tenant_id == *tenant) {
            stored.version += u64::from(stored.chart.without(id));
        }
    }
}

#[async_trait]
impl OrgCharts for InMemoryStore {
    async fn chart(&self, owner: &RosterOwner) -> Result<Option<StoredChart>, StoreError> {
        Ok(self.tables().charts.iter().find(|stored| stored.chart.owner == *owner).cloned())
    }

    async fn put_chart(
        &self,
        chart: AgentOrgChart,
        expected: Option<u64>,
        _at: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        let RosterOwner { tenant_id, workspace_id } = chart.owner.clone();
        let viewer = Owner { tenant: tenant_id, workspace: workspace_id, principal: None };
        let is_there = |id: &RosterId| {
            let mut members = tables.roster.iter();
            members.any(|it| it.entry.roster_id == *id && it.is_visible_to(&viewer))
        };
        let all_there = chart.members.iter().all(|member| is_there(&member.roster_id));
        let place = tables.charts.iter().position(|stored| stored.chart.owner == chart.owner);
        let before = place.map_or(0, |place| tables.charts[place].version);
        if !all_there || expected.is_some_and(|expected| expected != before) {
            return Err(StoreError::Moved { what: "the org chart".to_owned() });
        }
        let stored = StoredChart { chart, version: before + 1 };
        match place {
            Some(place) => tables.charts[place] = stored,
            None => tables.charts.push(stored),
        }
        Ok(before + 1)
    }
}
