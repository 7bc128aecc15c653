//! Charts of who stands where: one record for each owner and kind of key.

use std::sync::Arc;

use callboard_protocol::{AgentOrgChart, RosterId, RosterOwner};

use crate::records::{Expected, Key, Kind, RecordChange, RecordQuery, Tries, Within};
use crate::roster::{member_key, member_stands};
use crate::store::{Batch, KeyMode, Realm, Scope, Store, StoreError};

/// Charts by owner. A dismissed member leaves every chart in the same transaction.
#[derive(Debug, Clone)]
pub struct OrgCharts {
    store: Arc<dyn Store>,
}

/// A chart as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChart {
    pub chart: AgentOrgChart,
    /// Grows by one with every change; the first is one.
    pub version: u64,
}

fn place_of(mode: KeyMode, owner: &RosterOwner) -> Scope {
    Scope { tenant: owner.tenant_id.clone(), workspace: owner.workspace_id.clone(), mode }
}

impl OrgCharts {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn chart(
        &self,
        mode: KeyMode,
        owner: &RosterOwner,
    ) -> Result<Option<StoredChart>, StoreError> {
        let key = Key::in_place(&place_of(mode, owner), []);
        let Some(record) = self.store.get(Kind::OrgChart, &key).await? else { return Ok(None) };
        Ok(Some(StoredChart { chart: record.read()?, version: record.version }))
    }

    /// Keeps a chart, and answers its version. What was decided on another version, or places somebody who is not on
    /// the owner's roster, is [`StoreError::Moved`].
    pub async fn put_chart(
        &self,
        mode: KeyMode,
        chart: &AgentOrgChart,
        expected: Option<u64>,
    ) -> Result<u64, StoreError> {
        let mut tries = Tries::default();
        loop {
            let put = self.put_once(mode, chart, expected).await;
            if expected.is_some() || !tries.again(&put) {
                return put;
            }
        }
    }

    async fn put_once(
        &self,
        mode: KeyMode,
        chart: &AgentOrgChart,
        expected: Option<u64>,
    ) -> Result<u64, StoreError> {
        let moved = || StoreError::Moved { what: "the org chart".to_owned() };
        let place = place_of(mode, &chart.owner);
        let key = Key::in_place(&place, []);
        let before = self.store.get(Kind::OrgChart, &key).await?;
        let version = before.as_ref().map_or(0, |before| before.version);
        if expected.is_some_and(|expected| expected != version) {
            return Err(moved());
        }
        let put = RecordChange::put(Kind::OrgChart, key, place.clone(), chart)?;
        let mut changes = vec![put.expecting(Expected::of(before.as_ref()))];
        for member in &chart.members {
            let key = member_key(&place.tenant, &member.roster_id);
            let found = self.store.get(Kind::Member, &key).await?;
            if !found.is_some_and(|found| place.includes(&found.place)) {
                return Err(moved());
            }
            changes.push(member_stands(&place.tenant, &member.roster_id));
        }
        self.store.commit(Batch::of_records(changes)).await?;
        Ok(version + 1)
    }
}

/// The changes by which a member leaves every chart of the realm.
pub(crate) async fn without(
    store: &dyn Store,
    realm: &Realm,
    member: &RosterId,
) -> Result<Vec<RecordChange>, StoreError> {
    let charts = RecordQuery::all(Kind::OrgChart, Within::Realm(realm.clone()));
    let mut changes = Vec::new();
    for record in store.scan(&charts).await? {
        let mut chart: AgentOrgChart = record.read()?;
        if chart.without(member) {
            let expected = Expected::Version(record.version);
            let put = RecordChange::put(Kind::OrgChart, record.key, record.place, &chart)?;
            changes.push(put.expecting(expected));
        }
    }
    Ok(changes)
}
