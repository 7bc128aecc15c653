//! The engine's front door: what a host can ask of runs.

mod create;
mod import;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use callboard_core::{
    Born, Command, HostLimits, Inadmissible, InterruptView, Parent, Refusal, Resolution,
    RetryRefusal, Run, unfolded_snapshot,
};
use callboard_protocol::{
    DrainPolicy, ENGINE_VERSION, HostId, NodeId, Principal, RunId, RunSnapshot, RunStatus,
    Timestamp, WorkflowId,
};

use crate::activity::Activities;
use crate::budget::Budgets;
use crate::catalog::Catalog;
use crate::claim::Driving;
use crate::clock::{Clock, Ids};
use crate::concurrency::Waiting;
use crate::decisions::{DEFAULT_LIMIT, Decisions, Lane, Undecided};
use crate::directory::Directory;
use crate::family::Families;
use crate::files::Files;
use crate::memory::Memory;
use crate::observe::Ended;
use crate::park::Parked;
use crate::patience::patient;
use crate::places::Places;
use crate::quota::{OverQuota, Quotas};
use crate::roster::Roster;
use crate::secrets::Secrets;
use crate::store::{Batch, Outcome, Scope, Store, StoreError};
use crate::strikes::Strikes;
use crate::tallies::Tallies;
use crate::tasks::Tasks;
use crate::unprocessable::Struck;

pub(crate) use create::{PreparedRun, only_once};

/// Drives runs on one store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    /// The same store for calls under a claim: they wait while it is unavailable.
    pub(crate) patient_store: Arc<dyn Store>,
    pub(crate) catalog: Catalog,
    pub(crate) activities: Activities,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) memory: Memory,
    pub(crate) files: Files,
    pub(crate) roster: Roster,
    pub(crate) secrets: Secrets,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) options: Options,
    /// Those of the options, until the host reads its files again.
    limits: RwLock<HostLimits>,
    pub(crate) driving: Driving,
    /// Says that something may have become due.
    pub(crate) nudge: Notify,
    /// Says that a log has grown.
    pub(crate) appended: Notify,
    /// Says that a question is to be sent to a callback address.
    pub(crate) asked: Notify,
    /// The same as `appended`, to any number of readers.
    pub(crate) growth: watch::Sender<u64>,
    /// No new work; drivers give their runs back.
    pub(crate) stop: CancellationToken,
    /// Drivers give their runs back at once, whatever is under way.
    pub(crate) hurry: CancellationToken,
    pub(crate) tasks: Tasks,
    pub(crate) tallies: Tallies,
    pub(crate) families: Families,
    pub(crate) decisions: Decisions,
    pub(crate) places: Places,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) quotas: Quotas,
    pub(crate) struck: Struck,
    pub(crate) strikes: Strikes,
    pub(crate) parked: Parked,
    /// When this process began to count runs.
    pub(crate) since: Timestamp,
    /// The reader of ended runs.
    pub(crate) ended: OnceLock<mpsc::Sender<Ended>>,
}

/// What an engine is built from.
#[derive(Debug)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub catalog: Catalog,
    pub activities: Activities,
    pub directory: Arc<dyn Directory>,
    pub secrets: Secrets,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub options: Options,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub host: HostId,
    /// How long a claim holds without being renewed.
    pub lease: Duration,
    /// How often claims are renewed; at most half the lease.
    pub heartbeat: Duration,
    pub limits: HostLimits,
    pub driving: DrivingLimits,
}

/// What the runs that are being driven may take.
#[derive(Debug, Clone)]
pub struct DrivingLimits {
    /// How long one decision about a run may take.
    pub decision: Duration,
    /// How many runs are driven at once; the others wait for their turn.
    pub most_runs: usize,
    /// What those may hold together, as values are weighed: no other is taken up while they hold more.
    pub most_bytes: usize,
    /// Called with a run before it is folded or decided on a thread: tests make it never return.
    pub before_decision: Option<fn(&Run)>,
}

/// What the runs that are being driven take of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrivingLoad {
    pub runs: usize,
    pub most_runs: usize,
    pub bytes: usize,
    pub most_bytes: usize,
}

impl Default for DrivingLimits {
    fn default() -> Self {
        Self {
            decision: DEFAULT_LIMIT,
            most_runs: 4096,
            most_bytes: 256 << 20,
            before_decision: None,
        }
    }
}

/// What was done, for the answer to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub run: RunId,
    pub status: RunStatus,
    pub at: Timestamp,
}

/// Turns what was done into the outcome that is committed with it. Called at most once per commit that is tried.
pub type Remember = Arc<dyn Fn(&Done) -> Outcome + Send + Sync>;

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("no workflow {0}")]
    UnknownWorkflow(WorkflowId),
    /// No such agent, or none that the caller may see.
    #[error("no agent {0}")]
    UnknownAgent(String),
    /// A node starts a workflow that does not exist.
    #[error("node {node} starts the workflow {workflow}, which does not exist")]
    UnknownChild { node: NodeId, workflow: WorkflowId },
    /// The order itself is wrong.
    #[error(transparent)]
    Inadmissible(#[from] Inadmissible),
    /// No such run, or none that the caller may see.
    #[error("no run {0}")]
    UnknownRun(RunId),
    /// A fork must leave its source's history at one of its events.
    #[error("run {run} has no event {from} to fork at; its log holds {until}")]
    NoSuchEvent { run: RunId, from: u64, until: u64 },
    /// The run cannot be retried as it was asked.
    #[error("run {run}: {refusal}")]
    NotRetryable { run: RunId, refusal: RetryRefusal },
    /// There is no newest definition to retry a run with.
    #[error(
        "run {run} cannot be retried with the newest definition: there is no workflow {workflow} any more"
    )]
    DefinitionGone { run: RunId, workflow: WorkflowId },
    /// What the source saw of memory can no longer be rebuilt, so no fork can see it again.
    #[error("what run {run} saw of memory at event {from} is not available")]
    NoMemorySnapshot { run: RunId, from: u64, reason: SnapshotLoss },
    /// The run's state does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A newer build started the run.
    #[error("run {run} was started by engine version {persisted}; this host is version {current}")]
    FutureVersion { run: RunId, persisted: u32, current: u32 },
    /// Nothing can be decided about the run.
    #[error("run {run}: {why}")]
    Unprocessable { run: RunId, why: Undecided },
    /// The tenant has as many runs stored as it may.
    #[error(transparent)]
    OverQuota(#[from] OverQuota),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a snapshot of memory is not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotLoss {
    /// It was let go of in time.
    RetentionExpired,
    /// It cannot be read.
    EventLogUnavailable,
}

/// A run as it was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How many events the snapshot has folded.
    pub version: u64,
    pub status: RunStatus,
    /// The masked snapshot, serialised.
    pub json: String,
    pub born: Born,
    pub engine_version: u32,
}

impl Inner {
    /// When a lease ends that is granted now.
    pub(crate) fn lease_end(&self) -> Timestamp {
        self.clock.counted().plus(self.options.lease)
    }

    pub(crate) fn limits(&self) -> HostLimits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// What authors are shown of the node types that only this host has, by type id.
    pub fn described_types(&self) -> Vec<serde_json::Value> {
        self.inner.activities.described()
    }

    pub fn new(mut parts: Parts) -> Self {
        let decisions = Decisions::new(parts.options.driving.decision);
        parts.catalog.set_performed(parts.activities.types().cloned());
        parts.catalog.set_decisions(decisions.clone());
        let since = parts.clock.now();
        let driving = &parts.options.driving;
        let places = Places::new(driving.most_runs, driving.most_bytes);
        Self {
            inner: Arc::new(Inner {
                since,
                memory: Memory::new(Arc::clone(&parts.store)),
                files: Files::new(Arc::clone(&parts.store)),
                strikes: Strikes::new(Arc::clone(&parts.store)),
                roster: Roster::new(Arc::clone(&parts.store)),
                patient_store: patient(Arc::clone(&parts.store), Arc::clone(&parts.clock)),
                store: parts.store,
                catalog: parts.catalog,
                activities: parts.activities,
                directory: parts.directory,
                secrets: parts.secrets,
                clock: parts.clock,
                ids: parts.ids,
                limits: RwLock::new(parts.options.limits),
                options: parts.options,
                driving: Driving::default(),
                nudge: Notify::new(),
                appended: Notify::new(),
                asked: Notify::new(),
                growth: watch::Sender::new(0),
                stop: CancellationToken::new(),
                hurry: CancellationToken::new(),
                tasks: Tasks::default(),
                tallies: Tallies::default(),
                families: Families::default(),
                decisions,
                places,
                waiting: Arc::default(),
                quotas: Quotas::default(),
                struck: Struck::default(),
                parked: Parked::default(),
                ended: OnceLock::new(),
            }),
        }
    }

    /// Starts looking for due runs and renewing claims.
    pub fn start(&self) {
        self.inner.tasks.spawn(self.clone().scan_until_stopped());
        let heartbeat = self.clone().heartbeat_until_stopped();
        let hurry = self.inner.hurry.clone();
        self.inner.tasks.spawn(async move {
            // Claims are renewed until the last driver has left.
            hurry.run_until_cancelled(heartbeat).await;
        });
    }

    /// Stops claiming, lets what is being performed come to its next recorded event for up to `grace`, and gives
    /// every claim back.
    pub async fn shut_down(&self, grace: Duration) {
        let inner = &self.inner;
        inner.stop.cancel();
        let until = inner.clock.now().plus(grace);
        tokio::select! {
            () = inner.clock.sleep_until(until) => {}
            () = self.idle() => {}
        }
        inner.hurry.cancel();
        tokio::select! {
            () = inner.clock.sleep_until(inner.clock.now().plus(Duration::from_secs(1))) => inner.tasks.kill(),
            () = inner.tasks.finished() => {}
        }
    }

    /// Ends every task where it stands, as a crash would. Claims are not given back.
    pub fn kill(&self) {
        self.inner.tasks.kill();
    }

    /// How many runs this process drives now.
    pub fn driving(&self) -> usize {
        self.inner.driving.len()
    }

    async fn idle(&self) {
        while self.inner.driving.len() > 0 {
            self.inner
                .clock
                .sleep_until(self.inner.clock.now().plus(Duration::from_millis(20)))
                .await;
        }
    }

    /// Cancels a run. One that has ended keeps its end, and that is no error.
    pub async fn cancel(
        &self,
        scope: &Scope,
        run: &RunId,
        reason: Option<String>,
        by: Option<Principal>,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        match self
            .record(scope, run, &Command::Cancel { reason, by, parent: None }, remember.as_ref())
            .await
        {
            Err(EngineError::Refused(Refusal::Ended { status })) => {
                let done = Done { run: run.clone(), status, at: self.inner.clock.now() };
                if let Some(remember) = remember {
                    self.inner.store.commit(Batch::of_outcome(remember(&done), done.at)).await?;
                }
                Ok(done)
            }
            outcome => outcome,
        }
    }

    pub async fn pause(
        &self,
        scope: &Scope,
        run: &RunId,
        drain: DrainPolicy,
        reason: Option<String>,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        self.record(scope, run, &Command::Pause { drain, reason }, remember.as_ref()).await
    }

    pub async fn resume(
        &self,
        scope: &Scope,
        run: &RunId,
        reason: Option<String>,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        self.record(scope, run, &Command::Resume { reason }, remember.as_ref()).await
    }

    /// Answers a node's question. The first answer that settles it wins, on whichever host it arrives.
    pub async fn resolve(
        &self,
        scope: &Scope,
        run: &RunId,
        resolution: Resolution,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        self.record(scope, run, &Command::Resolve(resolution), remember.as_ref()).await
    }

    /// Whose run this is, for those whose right to it is not a key but a signed link.
    pub async fn scope_of(&self, run: &RunId) -> Result<Option<Scope>, EngineError> {
        let opened = self.inner.store.open(run).await?;
        Ok(opened.map(|opened| Scope::of(&opened.birth)))
    }

    /// The run that started this one, if another did.
    pub async fn parent(&self, scope: &Scope, run: &RunId) -> Result<Option<Parent>, EngineError> {
        Ok(self.birth_of(scope, run).await?.parent)
    }

    /// The name that this process holds runs under.
    pub fn host(&self) -> &HostId {
        &self.inner.options.host
    }

    /// How much of what this process may drive it drives.
    pub fn driving_load(&self) -> DrivingLoad {
        let places = &self.inner.places;
        let (runs, bytes) = places.load();
        DrivingLoad { runs, most_runs: places.most_runs(), bytes, most_bytes: places.most_bytes() }
    }

    /// The questions of a run that wait for an answer.
    pub async fn interrupts(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Vec<InterruptView>, EngineError> {
        Ok(self.open_visible(scope, run).await?.interrupts().collect())
    }

    /// The run as readers see it; none if there is no such run for this caller.
    pub async fn snapshot(&self, scope: &Scope, run: &RunId) -> Result<Option<Seen>, EngineError> {
        let Some(found) = self.inner.store.find(scope, run).await? else { return Ok(None) };
        if found.engine_version > ENGINE_VERSION {
            return Err(EngineError::FutureVersion {
                run: run.clone(),
                persisted: found.engine_version,
                current: ENGINE_VERSION,
            });
        }
        if let Some(json) = found.snapshot {
            let (version, status) = (found.version, found.status);
            let (born, engine_version) = (found.born, found.engine_version);
            return Ok(Some(Seen { version, status, json, born, engine_version }));
        }
        let (born, engine_version) = (found.born, found.engine_version);
        let seen = |version, status, shown: &RunSnapshot| {
            let unreadable = |error: serde_json::Error| StoreError::Unreadable {
                what: format!("the snapshot of {run}"),
                why: error.to_string(),
            };
            let json = serde_json::to_string(shown).map_err(unreadable)?;
            Ok(Some(Seen { version, status, json, born, engine_version }))
        };
        match self.folded_snapshot(scope, run).await {
            Ok((version, status, shown)) => seen(version, status, &shown),
            // What nobody can fold can still be looked at.
            Err(EngineError::Unprocessable { .. }) => {
                let birth = self.birth_of(scope, run).await?;
                let (version, status) = (found.version, found.status);
                let shown = unfolded_snapshot(&birth, status, version, None);
                seen(version, status, &shown)
            }
            Err(error) => Err(error),
        }
    }

    async fn folded_snapshot(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<(u64, RunStatus, RunSnapshot), EngineError> {
        let state = self.open_visible(scope, run).await?;
        let look = |state: Box<Run>| (state.version(), state.status(), state.snapshot());
        self.with_run(Lane::Read, state, look).await
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub fn memory(&self) -> &Memory {
        &self.inner.memory
    }

    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// What members and tenants have used by the day.
    pub fn budgets(&self) -> Budgets {
        Budgets::new(Arc::clone(&self.inner.store))
    }

    pub fn roster(&self) -> &Roster {
        &self.inner.roster
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub fn limits(&self) -> HostLimits {
        self.inner.limits()
    }

    /// From here on runs begin with these; those in flight keep what they were born with.
    pub fn set_limits(&self, limits: HostLimits) {
        *self.inner.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }
}
