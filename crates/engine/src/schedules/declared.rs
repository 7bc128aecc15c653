//! The schedules that a workflow's own definition declares.

use sha2::{Digest as _, Sha256};

use callboard_core::{Cron, Plan, Priority, ScheduleError};
use callboard_protocol::{
    Object, Owner, ScheduleId, Tenant, Timestamp, TriggerType, WorkflowId, WorkflowTrigger, hex,
};
use serde::Deserialize;
use serde_json::Value;

use super::schedule::{MissedFire, Overlap, Schedule, ScheduleState, Timing};
use super::scheduler::Scheduler;
use crate::catalog::{CatalogEntry, Origin};
use crate::store::{KeyMode, Scope, StoreError};

/// The configuration of a schedule trigger, as the published trigger node has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    cron: String,
    #[serde(default)]
    timezone: Option<String>,
    #[serde(default)]
    missed_fire_policy: MissedFire,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    inputs: Object,
}

/// Why a trigger of a definition cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct DeclaredError {
    pub path: String,
    pub why: ScheduleError,
}

/// Reads the schedule triggers of a plan, for the owner of their runs. Those that are switched off declare nothing.
pub fn declared_schedules(
    plan: &Plan,
    owner: &Owner,
    mode: KeyMode,
    now: Timestamp,
) -> Result<Vec<Schedule>, DeclaredError> {
    let triggers = plan.definition().triggers.iter().enumerate();
    let wanted = triggers
        .filter(|(_, trigger)| is_schedule(trigger))
        .map(|(place, trigger)| declared(plan, trigger, place, owner, mode, now));
    wanted.collect()
}

fn declared(
    plan: &Plan,
    trigger: &WorkflowTrigger,
    place: usize,
    owner: &Owner,
    mode: KeyMode,
    now: Timestamp,
) -> Result<Schedule, DeclaredError> {
    let at = |field: &str| format!("triggers[{place}].config{field}");
    let config = Value::Object(trigger.config.clone().unwrap_or_default());
    let config: Config = serde_json::from_value(config).map_err(|error| DeclaredError {
        path: at(""),
        why: ScheduleError::Pattern(error.to_string()),
    })?;
    let timezone = config.timezone.unwrap_or_else(|| "UTC".to_owned());
    let checked = Cron::read(&config.cron, &timezone)
        .and_then(|cron| callboard_core::within_horizon(cron.next_after(now), now));
    let next = checked.map_err(|why| match why {
        ScheduleError::TimeZone(_) => DeclaredError { path: at(".timezone"), why },
        _ => DeclaredError { path: at(".cron"), why },
    })?;
    let scope = Scope::of_owner(owner, mode);
    let state = ScheduleState {
        timing: Timing::Cron { cron: config.cron, timezone },
        overlap: config.overlap,
        missed: config.missed_fire_policy,
        priority: config.priority,
        enabled: true,
        principal: owner.principal.clone(),
        created_at: now,
        updated_at: now,
        next_slot: Some(next),
        queued: None,
        fired_through: None,
        last_run: None,
        last_turn: None,
    };
    Ok(Schedule {
        id: id_of(plan, trigger, &scope),
        place: scope,
        workflow: plan.id().clone(),
        roster_id: None,
        trigger: Some(trigger.id.clone()),
        inputs: config.inputs,
        version: 1,
        wake_at: Some(next),
        state,
    })
}

/// The same trigger with the same configuration keeps its name, so that registering a definition again loses no slot; a
/// changed one is another schedule.
fn id_of(plan: &Plan, trigger: &WorkflowTrigger, scope: &Scope) -> ScheduleId {
    let config = trigger.config.as_ref().map(|config| Value::Object(config.clone()).to_string());
    let workspace = scope.workspace.as_ref().map_or("", |workspace| workspace.as_str());
    let mode = scope.mode.as_str();
    let mut hasher = Sha256::new();
    let fields = [scope.tenant.as_str(), workspace, mode, plan.id().as_str(), trigger.id.as_str()];
    for field in fields.into_iter().chain([config.as_deref().unwrap_or_default()]) {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    let digest = hasher.finalize();
    let hex = hex(&digest[..12]);
    format!("trg_{hex}").into()
}

/// Who the host is where it starts runs of its own accord.
#[derive(Debug)]
pub(super) struct HostOwner {
    owner: Owner,
    mode: KeyMode,
}

impl Scheduler {
    /// Takes up the schedules of definitions that the host loaded for all tenants. They fire in each tenant where a
    /// member owns their workflow; where nobody does, their runs are this owner's.
    pub async fn declare_loaded(&self, owner: Owner, mode: KeyMode) -> Result<(), StoreError> {
        let host = self.inner.host.get_or_init(|| HostOwner { owner, mode });
        for entry in self.inner.engine.catalog().loaded().values() {
            self.declare_in(host, entry, &host.owner.tenant).await?;
            for tenant in self.tenants_of(host, entry).await? {
                self.declare_in(host, entry, &tenant).await?;
            }
        }
        self.wake();
        Ok(())
    }

    /// The same after definitions were loaded anew: what is not loaded any more fires no more. A tenant that has
    /// registered a workflow of the same id declares its schedules when it registers it again.
    pub async fn declare_again(&self, gone: &[WorkflowId]) -> Result<(), StoreError> {
        let Some(host) = self.inner.host.get() else { return Ok(()) };
        for id in gone {
            let mut tenants = self.inner.engine.roster().tenants_owning(host.mode, id).await?;
            tenants.push(host.owner.tenant.clone());
            for tenant in tenants {
                let owner = Owner { tenant, ..host.owner.clone() };
                let place = Scope::of_owner(&owner, host.mode);
                self.inner.schedules.declare_schedules(&place, id, Vec::new()).await?;
            }
        }
        self.declare_loaded(host.owner.clone(), host.mode).await
    }

    /// The same after a portfolio of this tenant has changed. After a crash before this, the next start does it.
    pub async fn redeclare_loaded(&self, changed: &Tenant) -> Result<(), StoreError> {
        let Some(host) = self.inner.host.get() else { return Ok(()) };
        let loaded = self.inner.engine.catalog().loaded();
        for entry in loaded.values().filter(|entry| has_schedules(&entry.plan)) {
            for tenant in [changed, &host.owner.tenant] {
                self.declare_in(host, entry, tenant).await?;
            }
        }
        self.wake();
        Ok(())
    }

    /// Makes the schedules of a loaded definition those of a tenant, or takes them from it.
    async fn declare_in(
        &self,
        host: &HostOwner,
        entry: &CatalogEntry,
        tenant: &Tenant,
    ) -> Result<(), StoreError> {
        let (id, now) = (entry.plan.id(), self.inner.engine.clock().wall());
        let owner = Owner { tenant: tenant.clone(), ..host.owner.clone() };
        let mut declared = Vec::new();
        if self.tenants_of(host, entry).await?.contains(tenant) {
            declared = declared_schedules(&entry.plan, &owner, host.mode, now).unwrap_or_else(|error| {
                tracing::warn!(workflow = %id, %error, "schedule of a loaded workflow left out");
                Vec::new()
            });
        }
        let place = Scope::of_owner(&owner, host.mode);
        self.inner.schedules.declare_schedules(&place, id, declared).await
    }

    /// For which tenants a loaded definition fires.
    async fn tenants_of(
        &self,
        host: &HostOwner,
        entry: &CatalogEntry,
    ) -> Result<Vec<Tenant>, StoreError> {
        if !has_schedules(&entry.plan) {
            return Ok(Vec::new());
        }
        let owning = self.inner.engine.roster().tenants_owning(host.mode, entry.plan.id()).await?;
        Ok(if owning.is_empty() { vec![host.owner.tenant.clone()] } else { owning })
    }

    /// Whether a definition as it stands still declares a schedule in its own place.
    pub(super) async fn is_declared(&self, schedule: &Schedule) -> Result<bool, StoreError> {
        let place = &schedule.place;
        let entry = match self.inner.engine.catalog().find_own(place, &schedule.workflow).await {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(false),
            // Its contents are unknown; its turn reports that.
            Err(StoreError::Unreadable { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut triggers = entry.plan.definition().triggers.iter();
        let is_told = triggers.any(|trigger| {
            is_schedule(trigger) && id_of(&entry.plan, trigger, &schedule.place) == schedule.id
        });
        match self.inner.host.get().filter(|_| is_told && entry.origin == Origin::Loaded) {
            Some(host) => Ok(self.tenants_of(host, &entry).await?.contains(&place.tenant)),
            None => Ok(is_told),
        }
    }
}

fn is_schedule(trigger: &WorkflowTrigger) -> bool {
    trigger.kind == TriggerType::Schedule && trigger.enabled
}

fn has_schedules(plan: &Plan) -> bool {
    plan.definition().triggers.iter().any(is_schedule)
}
