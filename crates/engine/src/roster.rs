//! Standing members: records with a version, one roster for each tenant's live keys, one for its test keys.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{
    AgentRosterEntry, ProviderUsage, RosterId, Tenant, Timestamp, WorkflowId,
};

use crate::budget::daily_limit_key;
use crate::org_chart;
use crate::records::{
    Expected, Key, Kind, MEMBER, Record, RecordChange, RecordQuery, WORKFLOW, Within, retry_moved,
};
use crate::store::{Batch, KeyMode, Scope, Store, StoreError};
use crate::triggers::Subscription;
use crate::work;

/// Members by tenant and id. Reads ask who looks: a caller with a workspace sees that workspace's members, one
/// without sees all of its tenant's. Test keys and live keys have members of their own; no two of a tenant's members
/// have the same id.
#[derive(Debug, Clone)]
pub struct Roster {
    store: Arc<dyn Store>,
}

/// The event of one model call.
pub const USAGE: &str = "provider.usage";

/// The entry under which the owners of a workflow are found whose tenant is not known.
const OWNED: &str = "owned";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    entry: AgentRosterEntry,
    hired_at: Timestamp,
}

/// The key of a member. It does not name the kind of key, since both kinds share a tenant's ids.
pub(crate) fn member_key(tenant: &Tenant, id: &RosterId) -> Key {
    Key::of([tenant.as_str(), id.as_str()])
}

/// That the member is still there when the batch is committed.
pub(crate) fn member_stands(tenant: &Tenant, id: &RosterId) -> RecordChange {
    RecordChange::check(Kind::Member, member_key(tenant, id), Expected::Present)
}

fn owned_in(mode: KeyMode, workflow: &WorkflowId) -> String {
    Key::of([mode.as_str(), workflow.as_str()]).to_string()
}

impl Roster {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub async fn member(
        &self,
        viewer: &Scope,
        id: &RosterId,
    ) -> Result<Option<StoredMember>, StoreError> {
        let found = self.store.get(Kind::Member, &member_key(&viewer.tenant, id)).await?;
        let found = found.filter(|record| viewer.includes(&record.place));
        found.as_ref().map(StoredMember::read).transpose()
    }

    /// All of them, in the order in which they were hired.
    pub async fn members(&self, viewer: &Scope) -> Result<Vec<StoredMember>, StoreError> {
        self.list(RecordQuery::all(Kind::Member, Within::VisibleTo(viewer.clone()))).await
    }

    /// Those whose portfolio holds a workflow, in the order in which they were hired.
    pub async fn owners_of(
        &self,
        viewer: &Scope,
        workflow: &WorkflowId,
    ) -> Result<Vec<StoredMember>, StoreError> {
        let owners = RecordQuery::all(Kind::Member, Within::VisibleTo(viewer.clone()));
        self.list(owners.found_by(WORKFLOW.of(&viewer.realm(), workflow.as_str()))).await
    }

    /// The tenants in which a member owns a workflow, for the host's own question whom a workflow that it loaded
    /// for all tenants fires for.
    pub async fn tenants_owning(
        &self,
        mode: KeyMode,
        workflow: &WorkflowId,
    ) -> Result<Vec<Tenant>, StoreError> {
        let owners = RecordQuery::all(Kind::Member, Within::Everywhere);
        let owners = self.store.scan(&owners.with(OWNED, owned_in(mode, workflow))).await?;
        let mut tenants: Vec<_> = owners.into_iter().map(|record| record.place.tenant).collect();
        tenants.sort();
        tenants.dedup();
        Ok(tenants)
    }

    /// Keeps a new member. An id that is taken is [`StoreError::Moved`].
    pub async fn hire(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let hired = put(mode, entry, at)?.expecting(Expected::Absent);
        self.store.commit(Batch::of_records([hired])).await
    }

    /// Replaces an entry that was decided on `expected`; on any other version it is [`StoreError::Moved`].
    pub async fn change(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        expected: u64,
    ) -> Result<(), StoreError> {
        let (tenant, id) = (&entry.owner.tenant_id, &entry.roster_id);
        let before = self.store.get(Kind::Member, &member_key(tenant, id)).await?;
        let Some(before) = before.filter(|record| record.place.mode == mode) else {
            return Err(StoreError::Moved { what: id.to_string() });
        };
        let Body { hired_at, .. } = before.read()?;
        let changed = put(mode, entry, hired_at)?.expecting(Expected::Version(expected));
        self.store.commit(Batch::of_records([changed])).await
    }

    /// Answers whether there was such a member. What its runs say of it stays; its queue of work goes, with its
    /// schedules, its heartbeats, its daily limit and its place in charts.
    pub async fn dismiss(&self, viewer: &Scope, id: &RosterId) -> Result<bool, StoreError> {
        let dismissed = retry_moved(|| async {
            let key = member_key(&viewer.tenant, id);
            let found = self.store.get(Kind::Member, &key).await?;
            let Some(found) = found.filter(|record| viewer.includes(&record.place)) else {
                return Ok(false);
            };
            let gone = RecordChange::delete(Kind::Member, key);
            let mut changes = vec![gone.expecting(Expected::Version(found.version))];
            changes.extend(self.belongings(viewer, id).await?);
            self.store.commit(Batch::of_records(changes)).await?;
            Ok(true)
        });
        let is_dismissed = dismissed.await?;
        if is_dismissed {
            self.remove_late_belongings(viewer, id).await?;
        }
        Ok(is_dismissed)
    }

    /// Takes away what was given to the member between the look at what it has and its dismissal. Nothing follows:
    /// whatever names a member expects it to be there.
    async fn remove_late_belongings(
        &self,
        viewer: &Scope,
        id: &RosterId,
    ) -> Result<(), StoreError> {
        retry_moved(|| async {
            let late = self.belongings(viewer, id).await?;
            match late.is_empty() {
                true => Ok(()),
                false => self.store.commit(Batch::of_records(late)).await,
            }
        })
        .await
    }

    /// The changes by which all goes that is the member's.
    async fn belongings(
        &self,
        viewer: &Scope,
        id: &RosterId,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let realm = viewer.realm();
        let queue =
            Subscription::key(&Subscription::work_queue_id(&viewer.tenant, id, viewer.mode));
        let of_kind = |kind| RecordQuery::all(kind, Within::Realm(realm.clone()));
        let queries = [
            of_kind(Kind::Schedule).found_by(MEMBER.of(&realm, id.as_str())),
            of_kind(Kind::Heartbeat).found_by(MEMBER.of(&realm, id.as_str())),
            of_kind(Kind::WorkItem).below(member_key(&viewer.tenant, id)),
            of_kind(Kind::WaitingWork).below(work::waiting_of(&realm, id)),
            RecordQuery::all(Kind::InboundDelivery, Within::Everywhere).below(queue.clone()),
        ];
        let mut changes = Vec::new();
        for query in queries {
            let found = self.store.scan(&query).await?.into_iter();
            changes.extend(found.map(|record| RecordChange::delete(record.kind, record.key)));
        }
        for single in [(Kind::Subscription, queue), (Kind::DailyLimit, daily_limit_key(&realm, id))]
        {
            if self.store.get(single.0, &single.1).await?.is_some() {
                changes.push(RecordChange::delete(single.0, single.1));
            }
        }
        changes.extend(org_chart::without(&*self.store, &realm, id).await?);
        Ok(changes)
    }

    async fn list(&self, query: RecordQuery) -> Result<Vec<StoredMember>, StoreError> {
        let mut records = self.store.scan(&query).await?;
        records.sort_by_key(|record| record.position);
        records.iter().map(StoredMember::read).collect()
    }
}

fn put(
    mode: KeyMode,
    entry: AgentRosterEntry,
    hired_at: Timestamp,
) -> Result<RecordChange, StoreError> {
    let owner = &entry.owner;
    let (tenant, workspace) = (owner.tenant_id.clone(), owner.workspace_id.clone());
    let place = Scope { tenant, workspace, mode };
    let (key, realm) = (member_key(&place.tenant, &entry.roster_id), place.realm());
    let body = Body { entry, hired_at };
    let mut change = RecordChange::put(Kind::Member, key, place, &body)?;
    for workflow in &body.entry.workflows {
        change = change
            .found_by([WORKFLOW.of(&realm, workflow.as_str())])
            .indexed(OWNED, owned_in(mode, workflow));
    }
    Ok(change)
}

/// Sums of what runs used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// As far as the prices are known; an estimate.
    pub cost_usd: f64,
}

impl Spent {
    pub fn of(usage: &ProviderUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_usd: usage.cost_estimate_usd.unwrap_or(0.0),
        }
    }

    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_usd += other.cost_usd;
    }

    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// A member as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    pub entry: AgentRosterEntry,
    /// Whose keys it was hired with.
    pub mode: KeyMode,
    /// Grows by one with every change; the first is one.
    pub version: u64,
    pub hired_at: Timestamp,
}

impl StoredMember {
    fn read(record: &Record) -> Result<Self, StoreError> {
        let Body { entry, hired_at } = record.read()?;
        Ok(Self { entry, mode: record.place.mode, version: record.version, hired_at })
    }
}
