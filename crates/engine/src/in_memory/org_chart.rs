//! Charts of who stands where, in memory.

use async_trait::async_trait;

use callboard_protocol::{AgentOrgChart, RosterId, RosterOwner, Tenant, Timestamp};

use super::{InMemoryStore, Tables};
use crate::org_chart::{OrgCharts, StoredChart};
use crate::store::{KeyMode, Scope, StoreError};

impl Tables {
    fn chart_of(&self, mode: KeyMode, owner: &RosterOwner) -> Option<usize> {
        let is_it =
            |(kept, stored): &(KeyMode, StoredChart)| *kept == mode && stored.chart.owner == *owner;
        self.charts.iter().position(is_it)
    }

    /// Takes somebody out of every chart of their tenant.
    pub(super) fn unplace(&mut self, tenant: &Tenant, id: &RosterId) {
        let charts = self.charts.iter_mut().map(|(_, stored)| stored);
        for stored in charts.filter(|stored| stored.chart.owner.tenant_id == *tenant) {
            stored.version += u64::from(stored.chart.without(id));
        }
    }
}

#[async_trait]
impl OrgCharts for InMemoryStore {
    async fn chart(
        &self,
        mode: KeyMode,
        owner: &RosterOwner,
    ) -> Result<Option<StoredChart>, StoreError> {
        let tables = self.tables();
        Ok(tables.chart_of(mode, owner).map(|place| tables.charts[place].1.clone()))
    }

    async fn put_chart(
        &self,
        mode: KeyMode,
        chart: AgentOrgChart,
        expected: Option<u64>,
        _at: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        let RosterOwner { tenant_id, workspace_id } = chart.owner.clone();
        let viewer = Scope { tenant: tenant_id, workspace: workspace_id, mode };
        let is_there = |id: &RosterId| tables.place_of(&viewer, id).is_some();
        let all_there = chart.members.iter().all(|member| is_there(&member.roster_id));
        let place = tables.chart_of(mode, &chart.owner);
        let before = place.map_or(0, |place| tables.charts[place].1.version);
        if !all_there || expected.is_some_and(|expected| expected != before) {
            return Err(StoreError::Moved { what: "the org chart".to_owned() });
        }
        let stored = StoredChart { chart, version: before + 1 };
        match place {
            Some(place) => tables.charts[place].1 = stored,
            None => tables.charts.push((mode, stored)),
        }
        Ok(before + 1)
    }
}
