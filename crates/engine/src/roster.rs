//! The port to standing members: plain rows with a version, one roster for each tenant's live keys, one for its test keys.

use async_trait::async_trait;
use serde::Serialize;

use callboard_protocol::{
    AgentRosterEntry, ProviderUsage, RosterId, Tenant, Timestamp, WorkflowId,
};

use crate::budget::Budgets;
use crate::org_chart::OrgCharts;
use crate::store::{KeyMode, Scope, StoreError};

/// Members by tenant and id. Reads ask who looks: a caller with a workspace sees that workspace's members, one
/// without sees all of its tenant's. Test keys and live keys have members of their own; no two of a tenant's members
/// have the same id.
#[async_trait]
pub trait Roster: Budgets + OrgCharts {
    async fn member(
        &self,
        viewer: &Scope,
        id: &RosterId,
    ) -> Result<Option<StoredMember>, StoreError>;

    /// All of them, in the order in which they were hired.
    async fn members(&self, viewer: &Scope) -> Result<Vec<StoredMember>, StoreError>;

    /// Those whose portfolio holds a workflow, in the order in which they were hired.
    async fn owners_of(
        &self,
        viewer: &Scope,
        workflow: &WorkflowId,
    ) -> Result<Vec<StoredMember>, StoreError>;

    /// The tenants in which somebody owns a workflow, for the host's own question whom a workflow that it loaded
    /// for everybody fires for.
    async fn tenants_owning(
        &self,
        mode: KeyMode,
        workflow: &WorkflowId,
    ) -> Result<Vec<Tenant>, StoreError>;

    /// Keeps a new member. An id that is taken is [`StoreError::Moved`].
    async fn hire(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Replaces an entry that was decided on `expected`; on any other version it is [`StoreError::Moved`].
    async fn change(
        &self,
        mode: KeyMode,
        entry: AgentRosterEntry,
        expected: u64,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// What the models of a member's runs were paid since then. A replay pays nobody.
    async fn spent(
        &self,
        scope: &Scope,
        member: &RosterId,
        since: Timestamp,
    ) -> Result<Spent, StoreError>;

    /// Answers whether there was such a member. What its runs say of it stays; its queue of work
    /// goes, with its schedules, its allowance and its place in charts.
    async fn dismiss(&self, scope: &Scope, id: &RosterId) -> Result<bool, StoreError>;
}

/// The event that tells of one call of a model.
pub const USAGE: &str = "provider.usage";

/// Sums of what runs used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
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
    /// The rule of visibility, for lists, reads and dispatch alike.
    pub fn is_visible_to(&self, viewer: &Scope) -> bool {
        let owner = &self.entry.owner;
        owner.tenant_id == viewer.tenant
            && self.mode == viewer.mode
            && (viewer.workspace.is_none() || viewer.workspace == owner.workspace_id)
    }
}
