//! The host's files read again while it serves: workflows, packs, trusted keys and limits of runs, all of them or none.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use callboard_agents::{AgentRegistry, Installed, Policy};
use callboard_backends::Egress;
use callboard_core::{EgressList, HostLimits};
use callboard_engine::{Clock as _, Concurrency, Engine, Scheduler, StoredLimits, SystemClock};
use callboard_protocol::Tenant;
use callboard_server::{
    FileRoles, KeyRing, NotReloaded, Reload, Reloaded, StartLimits, Starts, Tls,
};

use super::{Settings, check, conformance, engine, folder, packs, tls};
use crate::exit::CommandError;
use crate::settings::Shown;

/// What counts at once. Everything else is read by a start.
const AT_ONCE: [&str; 20] = [
    "server.workflows",
    "server.packs",
    "packs.keys",
    "packs.degrade",
    "limits.max_node_executions",
    "limits.max_run_duration_ms",
    "limits.max_loop_iterations",
    "limits.max_family_runs",
    "orchestration.confidence_floor",
    "orchestration.transcript_window",
    "orchestration.execution_model",
    "budgets.",
    "roles.",
    "limits.runs_per_minute.",
    "limits.stored_runs",
    "limits.concurrency.tenant",
    "limits.concurrency.workflows.",
    "limits.concurrency.agents.",
    "tenants.",
    "server.tls.",
];

/// Reads everything that the host was started with once more.
#[derive(Clone)]
pub(crate) struct Again(Arc<Read>);

type Read = dyn Fn() -> Result<(Settings, Vec<Shown>), CommandError> + Send + Sync;

impl Again {
    pub(crate) fn new(
        read: impl Fn() -> Result<(Settings, Vec<Shown>), CommandError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(read))
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again")
    }
}

#[derive(Debug)]
pub(super) struct Reloader {
    again: Again,
    engine: Engine,
    agents: Arc<AgentRegistry>,
    scheduler: Scheduler,
    keys: KeyRing,
    egress: Arc<Egress>,
    starts: Arc<Starts>,
    tls: Option<Tls>,
    /// What was in force when the host started: what differs from it and does not count at once needs a restart.
    started_with: Vec<(String, Value)>,
    /// One at a time.
    busy: tokio::sync::Mutex<()>,
    said: Mutex<Vec<String>>,
}

impl Reloader {
    pub(super) fn new(
        again: Again,
        engine: Engine,
        agents: Arc<AgentRegistry>,
        scheduler: Scheduler,
        keys: KeyRing,
        (egress, starts): (Arc<Egress>, Arc<Starts>),
        tls: Option<Tls>,
    ) -> Self {
        let started_with = (again.0)().map(|(_, shown)| values(shown)).unwrap_or_default();
        let (busy, said) = (tokio::sync::Mutex::default(), Mutex::default());
        Self {
            again,
            engine,
            agents,
            scheduler,
            keys,
            egress,
            starts,
            tls,
            started_with,
            busy,
            said,
        }
    }
}

fn values(shown: Vec<Shown>) -> Vec<(String, Value)> {
    shown.into_iter().map(|it| (it.key, it.value)).collect()
}

/// Everything from the disk, checked.
struct Fresh {
    definitions: Vec<String>,
    packs: Vec<Installed>,
    policy: Policy,
    limits: HostLimits,
    roles: FileRoles,
    concurrency: Concurrency,
    egress: BTreeMap<Tenant, EgressList>,
    starts: StartLimits,
    stored: StoredLimits,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    values: Vec<(String, Value)>,
}

/// Reads and judges; nothing is changed by it.
fn read(again: &Again) -> Result<Fresh, Vec<CommandError>> {
    let (settings, shown) = (again.0)().map_err(|error| vec![error])?;
    let faults = check::faults(&settings);
    if !faults.is_empty() {
        return Err(faults);
    }
    let one = |error| vec![error];
    let definitions = folder::read(&settings.workflows).map_err(one)?;
    let paths: Vec<PathBuf> = packs::find(&settings.packs).map_err(one)?;
    let (policy, now) = (settings.config.packs.policy(), SystemClock.now());
    let mut loaded = packs::load(&paths, &policy, now);
    if settings.test_seams {
        let ours = conformance::packs(&policy, now);
        loaded.extend(ours.map_err(|error| one(CommandError::failed(error.to_string())))?);
    }
    Ok(Fresh {
        definitions: folder::sources(definitions),
        packs: loaded,
        policy,
        limits: engine::limits(&settings.config),
        roles: settings.config.file_roles(),
        concurrency: settings.config.concurrency(),
        egress: settings.config.egress_lists(),
        starts: settings.config.start_limits(),
        stored: settings.config.stored_limits(),
        certificate: settings.tls.as_ref().map(tls::read).transpose().map_err(one)?,
        values: values(shown),
    })
}

#[async_trait]
impl Reload for Reloader {
    async fn reload(&self) -> Result<Reloaded, NotReloaded> {
        let _alone = self.busy.lock().await;
        let again = self.again.clone();
        let fresh = tokio::task::spawn_blocking(move || read(&again)).await;
        let fresh = fresh.map_err(|error| NotReloaded(error.to_string()))?;
        let fresh = fresh.map_err(|faults| {
            let what: Vec<String> = faults.into_iter().map(|fault| fault.what).collect();
            let what = what.join("; ");
            tracing::error!(error = what, "nothing was reloaded: a file is wrong");
            NotReloaded(what)
        })?;
        let (workflows, packs) = (fresh.definitions.len(), fresh.packs.len());
        // Where the database does not answer, nothing has changed yet.
        let left = self.agents.reload(fresh.policy, fresh.packs).await;
        for left in left.map_err(|error| NotReloaded(error.to_string()))? {
            tracing::warn!(pack = %left.id.name, error = %left.why, "pack left out");
        }
        let roles = self.keys.set_file_roles(fresh.roles).await;
        roles.map_err(|error| NotReloaded(error.to_string()))?;
        // Every one of them was compiled before.
        let gone = self.engine.catalog().reload(&fresh.definitions);
        let gone = gone.map_err(|(_, error)| NotReloaded(error.to_string()))?;
        self.engine.set_limits(fresh.limits);
        self.engine.set_concurrency(fresh.concurrency);
        self.egress.set_lists(fresh.egress);
        self.starts.set(fresh.starts);
        self.engine.quotas().set(fresh.stored);
        if let Err(error) = self.scheduler.declare_again(&gone).await {
            tracing::warn!(%error, "schedules of workflows not taken up; the next reload or start does it");
        }
        if let (Some(tls), Some((certificate, key))) = (&self.tls, &fresh.certificate) {
            // It was read and judged before.
            tls.replace(certificate, key).map_err(|error| NotReloaded(error.to_string()))?;
        }
        let needs_restart = changed(&self.started_with, &fresh.values);
        self.say(&needs_restart);
        tracing::info!(workflows, packs, "files reloaded");
        Ok(Reloaded { workflows, packs, needs_restart })
    }
}

impl Reloader {
    /// Each change is told once.
    fn say(&self, needs_restart: &[String]) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for key in needs_restart.iter().filter(|key| !said.contains(key)) {
            tracing::warn!(key, "changed in the configuration, and counts from the next start on");
        }
        *said = needs_restart.to_vec();
    }
}

/// The keys whose value is another one, and that do not count at once.
fn changed(before: &[(String, Value)], now: &[(String, Value)]) -> Vec<String> {
    let counts = |key: &str| {
        AT_ONCE.iter().any(|it| key == *it || (it.ends_with('.') && key.starts_with(it)))
    };
    let keys = before.iter().chain(now).map(|(key, _)| key.as_str());
    let find = |values: &[(String, Value)], key: &str| {
        values.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone())
    };
    let differs = |key: &&str| !counts(key) && find(before, key) != find(now, key);
    let mut changed: Vec<String> = keys.filter(differs).map(str::to_owned).collect();
    changed.sort();
    changed.dedup();
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_count_at_once_is_named() {
        let of = |listen: &str, steps: u64, tokens: Option<u64>| {
            let mut values = vec![
                ("server.listen".to_owned(), json!(listen)),
                ("limits.max_node_executions".to_owned(), json!(steps)),
            ];
            values.extend(tokens.map(|tokens| ("budgets.run_tokens".to_owned(), json!(tokens))));
            values
        };
        assert!(changed(&of("a", 1, None), &of("a", 2, Some(3))).is_empty());
        assert_eq!(changed(&of("a", 1, None), &of("b", 1, None)), ["server.listen"]);
    }
}
