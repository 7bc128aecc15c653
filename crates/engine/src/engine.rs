//! The engine's front door: what a host can ask of runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use callboard_core::{
    Birth, Command, HostLimits, Inadmissible, InterruptView, Parent, Refusal, Resolution, Run,
    RunBudget, TraceContext,
};
use callboard_protocol::{
    DrainPolicy, ENGINE_VERSION, HostId, InvocationSource, NodeId, Object, Owner, Principal, RunId,
    RunStatus, Timestamp, WorkflowId,
};

use crate::activity::Activities;
use crate::catalog::Catalog;
use crate::claim::Driving;
use crate::clock::{Clock, Ids};
use crate::directory::{Directory, workflow_of};
use crate::files::Files;
use crate::fire::Acting;
use crate::memory::Memory;
use crate::observe::Ended;
use crate::roster::Roster;
use crate::secrets::Secrets;
use crate::store::{Claim, ClaimOrigin, KeyMode, Lease, NewRun, Outcome, Scope, Store, StoreError};
use crate::tallies::Tallies;
use crate::tasks::Tasks;

/// Drives runs on one store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: Catalog,
    pub(crate) activities: Activities,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) roster: Arc<dyn Roster>,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) options: Options,
    pub(crate) driving: Driving,
    /// Says that something may have become due.
    pub(crate) nudge: Notify,
    /// Says that a log has grown.
    pub(crate) appended: Notify,
    /// The same to any number of readers.
    pub(crate) growth: watch::Sender<u64>,
    /// No new work; drivers give their runs back.
    pub(crate) stop: CancellationToken,
    /// Drivers give their runs back at once, whatever is under way.
    pub(crate) hurry: CancellationToken,
    pub(crate) tasks: Tasks,
    pub(crate) tallies: Tallies,
    /// When this process began to count runs.
    pub(crate) since: Timestamp,
    /// Who wants to hear of ended runs.
    pub(crate) ended: OnceLock<mpsc::Sender<Ended>>,
}

/// What an engine is built from.
#[derive(Debug)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub catalog: Catalog,
    pub activities: Activities,
    pub directory: Arc<dyn Directory>,
    pub memory: Arc<dyn Memory>,
    pub files: Arc<dyn Files>,
    pub roster: Arc<dyn Roster>,
    pub secrets: Arc<dyn Secrets>,
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
}

/// A run to be started.
#[derive(Debug, Clone)]
pub struct Order {
    pub target: Target,
    pub owner: Owner,
    pub mode: KeyMode,
    pub inputs: Object,
    pub configurable: Object,
    pub tags: Vec<String>,
    pub metadata: Option<Object>,
    pub scope_id: Option<String>,
    pub callback_url: Option<String>,
    pub forced_engine_version: Option<u32>,
    /// `X-Dedup: enforce`.
    pub exclusive: bool,
    /// The caller's trace.
    pub trace: Option<TraceContext>,
    /// The standing member that a fire is for. Where it is none, a member that the target or a node names is it.
    pub acting: Option<Acting>,
}

/// What a run is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Workflow(WorkflowId),
    /// An agent or a standing member alone; the inputs are its task.
    Agent(String),
    /// The same, because somebody mentioned it.
    Mentioned(String),
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
    /// What the source saw of memory cannot be told any more, so nobody can see it again.
    #[error("what run {run} saw of memory at event {from} is not available")]
    NoMemorySnapshot { run: RunId, from: u64, reason: SnapshotLoss },
    /// The run's state does not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A newer build started the run.
    #[error("run {run} was started by engine version {persisted}; this host is version {current}")]
    FutureVersion { run: RunId, persisted: u32, current: u32 },
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

/// A run before it is written, with the claim that its creator takes. Record and state are large and pass through
/// many futures, so only their addresses do.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub(crate) record: Box<NewRun>,
    pub(crate) claim: Option<Claim>,
    pub(crate) run: Box<Run>,
}

/// A run as it was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How many events the snapshot has folded.
    pub version: u64,
    pub status: RunStatus,
    /// The masked snapshot, serialised.
    pub json: String,
}

impl Engine {
    pub fn new(mut parts: Parts) -> Self {
        parts.catalog.set_performed(parts.activities.types().cloned());
        let since = parts.clock.now();
        Self {
            inner: Arc::new(Inner {
                since,
                store: parts.store,
                catalog: parts.catalog,
                activities: parts.activities,
                directory: parts.directory,
                memory: parts.memory,
                files: parts.files,
                roster: parts.roster,
                secrets: parts.secrets,
                clock: parts.clock,
                ids: parts.ids,
                options: parts.options,
                driving: Driving::default(),
                nudge: Notify::new(),
                appended: Notify::new(),
                growth: watch::Sender::new(0),
                stop: CancellationToken::new(),
                hurry: CancellationToken::new(),
                tasks: Tasks::default(),
                tallies: Tallies::default(),
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

    /// Creates a run and begins to drive it. Once this returns, the run is on disk.
    pub async fn create(
        &self,
        order: Order,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let newborn = self.conceive(order).await?;
        let at = newborn.record.birth.created_at;
        self.bring_up(newborn, remember, at).await
    }

    /// A run as an order asks for it, checked and not yet written: whoever asked writes it together with what
    /// must be true with it.
    pub(crate) async fn conceive(&self, order: Order) -> Result<Newborn, EngineError> {
        self.conceive_with(order, |_| {}).await
    }

    /// The same with more in its birth record than an order can say, which may name the run itself.
    pub(crate) async fn conceive_with(
        &self,
        order: Order,
        complete: impl FnOnce(&mut Birth) + Send,
    ) -> Result<Newborn, EngineError> {
        let inner = &self.inner;
        let tenant = &order.owner.tenant;
        let run_id = inner.ids.run_id();
        let (workflow_id, entry) = match &order.target {
            Target::Workflow(id) => {
                let entry = inner.catalog.find(tenant, id).await?;
                (id.clone(), entry.ok_or_else(|| EngineError::UnknownWorkflow(id.clone()))?)
            }
            Target::Agent(agent) | Target::Mentioned(agent) => {
                // A name that no workflow could hold is nobody's.
                let entry = inner.catalog.of_agent(agent);
                let entry = entry.map_err(|_| EngineError::UnknownAgent(agent.clone()))?;
                (workflow_of(agent), entry)
            }
        };
        let mut cast = self.cast(&order.owner, &run_id, &entry.plan, order.acting.as_ref()).await?;
        match &order.target {
            Target::Workflow(_) => {}
            Target::Agent(agent) => cast.play_alone(agent, InvocationSource::RunApi)?,
            Target::Mentioned(agent) => cast.play_alone(agent, InvocationSource::ChatMention)?,
        }
        inner.catalog.admit_types(&entry.plan, &cast.pins)?;
        for (node, workflow) in entry.plan.children() {
            if inner.catalog.find(tenant, workflow).await?.is_none() {
                let (node, workflow) = (node.clone(), workflow.clone());
                return Err(EngineError::UnknownChild { node, workflow });
            }
        }
        let host = inner.options.limits;
        let limits = entry.plan.admit(&order.inputs, &order.configurable, host)?;
        let budget = RunBudget::admit(&order.configurable, &host, None)?;
        // Before the clock: whatever the run sees was written before it says that it began.
        let as_of = inner.memory.memory_position().await?;
        let files = self.files_of(&order.owner, order.mode).await?;
        let at = inner.clock.now();
        let exclusive = order.exclusive;
        let digest = entry.digest.clone();
        let mut birth = order.birth(run_id, workflow_id, digest, cast, (limits, budget), at);
        birth.memory.as_of = as_of;
        birth.files = files;
        complete(&mut birth);
        let run = Run::new(Arc::new(birth), entry.plan);
        let mut newborn = self.newborn(run, entry.source, at);
        newborn.record.exclusive = exclusive;
        Ok(newborn)
    }

    /// A run that is about to be written. Its creator drives it too, unless it is about to stop.
    pub(crate) fn newborn(&self, run: Run, definition: Arc<str>, at: Timestamp) -> Newborn {
        let options = &self.inner.options;
        let lease = (!self.inner.stop.is_cancelled())
            .then(|| Lease { host: options.host.clone(), until: at.plus(options.lease) });
        let claim = lease.as_ref().map(|lease| Claim {
            run: run.id().clone(),
            host: lease.host.clone(),
            epoch: Claim::FIRST_EPOCH,
            origin: ClaimOrigin::Free,
        });
        let record = NewRun {
            birth: Birth::clone(run.birth()),
            masked_inputs: run.masked_inputs(),
            definition,
            head: run.head(),
            lease,
            exclusive: false,
            outcome: None,
        };
        Newborn { record: Box::new(record), claim, run: Box::new(run) }
    }

    /// Writes a new run with what its request came to, and begins to drive it.
    pub(crate) async fn bring_up(
        &self,
        newborn: Newborn,
        remember: Option<Remember>,
        at: Timestamp,
    ) -> Result<Done, EngineError> {
        let Newborn { mut record, claim, run } = newborn;
        let done = Done { run: run.id().clone(), status: RunStatus::Pending, at };
        record.outcome = remember.map(|remember| remember(&done));
        let birth = run.birth().clone();
        let store = Arc::clone(&self.inner.store);
        self.commit_and_drive(async move { store.create(*record).await }, claim, run).await?;
        self.run_created(&birth);
        Ok(done)
    }

    /// On a task of its own: a caller who hangs up between the commit and the first step must not leave the run
    /// waiting for a lease to end.
    pub(crate) async fn commit_and_drive(
        &self,
        commit: impl Future<Output = Result<(), StoreError>> + Send + 'static,
        claim: Option<Claim>,
        run: Box<Run>,
    ) -> Result<(), StoreError> {
        let (sender, committed) = oneshot::channel();
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let outcome = commit.await;
            let is_created = outcome.is_ok();
            // The caller may be gone; the run is not.
            let _gone = sender.send(outcome);
            if let Some(claim) = claim.filter(|_| is_created) {
                engine.drive_held(claim, Some(run)).await;
            }
        });
        committed
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("the host is stopping".into())))
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
                    self.inner.store.remember(remember(&done), done.at).await?;
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
        let opened = self.open(run).await?;
        Ok(opened.map(|run| Scope::of(run.birth())))
    }

    /// The run that started this one, if another did.
    pub async fn parent(&self, scope: &Scope, run: &RunId) -> Result<Option<Parent>, EngineError> {
        Ok(self.open_visible(scope, run).await?.birth().parent.clone())
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
            return Ok(Some(Seen { version: found.head.version, status: found.head.status, json }));
        }
        let state = self.open_visible(scope, run).await?;
        let json =
            serde_json::to_string(&state.snapshot()).map_err(|error| StoreError::Unreadable {
                what: format!("the snapshot of {run}"),
                why: error.to_string(),
            })?;
        Ok(Some(Seen { version: state.version(), status: state.status(), json }))
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.inner.memory
    }

    pub fn secrets(&self) -> &Arc<dyn Secrets> {
        &self.inner.secrets
    }

    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    pub fn roster(&self) -> &Arc<dyn Roster> {
        &self.inner.roster
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub fn limits(&self) -> HostLimits {
        self.inner.options.limits
    }
}
