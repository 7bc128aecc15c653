//! The engine of a host, with everything that performs nodes.

use std::sync::Arc;
use std::time::Duration;

use callboard_agents::{AgentDirectory, AgentRegistry, WithModels};
use callboard_backends::{CallPrompt, FILES, FilesNode, MemoryNode, MemoryProbes};
use callboard_core::{ConformanceNodes, HostLimits, Run, UPKEEP};
use callboard_engine::{
    Activities, Activity, Catalog, Deployments, DrivingLimits, Engine, Ids, Options, Parts,
    RandomIds, Secrets, Store,
};
use callboard_protocol::HostId;

use super::agents::Dispatch;
use super::database::Database;
use super::folder::{self, Candidate};
use super::models::ModelWiring;
use super::{Settings, conformance, known};
use crate::config::Config;
use crate::process;

pub(super) fn build(
    settings: &Settings,
    definitions: Vec<Candidate>,
    database: &Database,
    agents: Arc<AgentRegistry>,
    dispatch: Dispatch,
    models: &ModelWiring,
    acting: Vec<(&'static str, Arc<dyn Activity>)>,
) -> Engine {
    let store = database.store();
    let nodes = if settings.test_seams { ConformanceNodes::On } else { ConformanceNodes::Off };
    let mut catalog = Catalog::new(store.clone(), nodes);
    folder::load(definitions, &mut catalog);
    let mut activities = Activities::default()
        .with("core.ai.callPrompt", Arc::new(CallPrompt))
        .with("core.identity", Arc::new(MemoryNode))
        .with(UPKEEP, Arc::new(MemoryNode))
        .with(FILES, Arc::new(FilesNode))
        .with_agents(dispatch.activity);
    for (type_id, activity) in acting {
        activities = activities.with(type_id, activity);
    }
    for (type_id, node) in &settings.config.nodes {
        activities = activities.with(type_id, Arc::new(node.clone()));
    }
    let mut secrets = Secrets::new(store.clone());
    activities = models.perform(activities, settings.test_seams);
    if settings.test_seams {
        activities = activities.with("core.identity", Arc::new(MemoryProbes));
        secrets = conformance::with_secrets(secrets);
    }
    // Only the bracket of a live agent says which version a channel led to.
    if settings.test_seams && dispatch.is_live {
        catalog.set_deployed(conformance::DEPLOYED);
    }
    let mut known = models.secrets.clone();
    known::learn_seal_key(&mut known, &settings.data);
    process::clean_log(known.clone());
    let secrets = secrets.with_host(known);
    let deployments = deployments(settings, &store);
    let directory = AgentDirectory { registry: agents, deployments };
    let directory = Arc::new(WithModels { directory, table: models.table.clone() });
    let engine = Engine::new(Parts {
        store,
        catalog,
        activities,
        directory,
        secrets,
        clock: database.clock(),
        ids: Arc::new(RandomIds),
        options: options(settings),
    });
    engine.set_concurrency(settings.config.concurrency());
    engine.quotas().set(settings.config.stored_limits());
    models.limited.tell(engine.waiting());
    engine
}

fn options(settings: &Settings) -> Options {
    let limits = &settings.config.limits;
    Options {
        host: host_id(),
        lease: settings.lease,
        heartbeat: settings.heartbeat,
        driving: DrivingLimits {
            decision: Duration::from_millis(limits.decision_timeout_ms),
            most_runs: usize::try_from(limits.max_driven_runs).unwrap_or(usize::MAX),
            most_bytes: usize::try_from(limits.max_driven_bytes).unwrap_or(usize::MAX),
            before_decision: settings.test_seams.then_some(conformance::spin as fn(&Run)),
        },
        limits: self::limits(&settings.config),
    }
}

/// The ceilings of every run.
pub(super) fn limits(config: &Config) -> HostLimits {
    let limits = &config.limits;
    HostLimits {
        max_node_executions: limits.max_node_executions,
        max_run_duration_ms: limits.max_run_duration_ms,
        max_loop_iterations: limits.max_loop_iterations,
        max_family_runs: limits.max_family_runs,
        confidence_floor: config.orchestration.confidence_floor,
        run_budget: config.budgets.run(),
        member_day: config.budgets.member_day(),
        tenant_day: config.budgets.tenant_day(),
        execution_model: config.orchestration.execution_model,
        transcript_window: config.orchestration.transcript_window,
    }
}

pub(super) fn deployments(settings: &Settings, store: &Arc<dyn Store>) -> Deployments {
    let deployments = Deployments::new(store.clone());
    if settings.test_seams { conformance::with_deployed(deployments) } else { deployments }
}

/// A name that no other process has or had, also on another machine.
fn host_id() -> HostId {
    format!("host-{}", RandomIds.run_id().as_str().trim_start_matches("run_")).into()
}
