//! How a run comes into being: checked, written, driven from its first step on.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use callboard_core::{Birth, HostLimits, Inadmissible, Plan, Run, RunBudget, RunLimits};
use callboard_protocol::{InvocationSource, Object, RunStatus, Timestamp};

use super::{Done, Engine, EngineError, Remember};
use crate::concurrency::Queue;
use crate::decisions::{Lane, Undecided};
use crate::directory::workflow_of;
use crate::drive::Granted;
use crate::order::{Order, Target};
use crate::store::{Batch, Claim, ClaimOrigin, Digest, Lease, NewRun, Outcome, Scope, StoreError};

/// A run before it is written, with the claim that its creator takes. Record and state are large and pass through
/// many futures, so only their addresses do.
#[derive(Debug)]
pub(crate) struct PreparedRun {
    pub(crate) record: Box<NewRun>,
    pub(crate) claim: Option<Granted>,
    pub(crate) run: Box<Run>,
}

impl Engine {
    /// Creates a run and begins to drive it. Once this returns, the run is on disk.
    pub async fn create(
        &self,
        order: Order,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let prepared = self.prepare(order, |_| {}).await?;
        Ok(self.persist_and_drive(prepared, remember, self.persist_alone()).await?)
    }

    /// A run as an order asks for it, checked and not yet written. `complete` adds to its birth record what no order can
    /// say, which may name the run itself.
    pub(crate) async fn prepare(
        &self,
        order: Order,
        complete: impl FnOnce(&mut Birth) + Send,
    ) -> Result<PreparedRun, EngineError> {
        let inner = &self.inner;
        inner.quotas.admit(&order.owner.tenant)?;
        let scope = Scope::of_owner(&order.owner, order.mode);
        let run_id = inner.ids.run_id();
        let (workflow_id, entry) = match &order.target {
            Target::Workflow(id) => {
                let entry = inner.catalog.find(&scope, id).await?;
                (id.clone(), entry.ok_or_else(|| EngineError::UnknownWorkflow(id.clone()))?)
            }
            Target::Agent(agent) | Target::Mentioned(agent) | Target::Node(agent) => {
                // A name that no workflow could hold is nobody's.
                let entry = inner.catalog.of_agent(agent).await;
                let entry = entry.map_err(|_| EngineError::UnknownAgent(agent.clone()))?;
                (workflow_of(agent), entry)
            }
        };
        let mut cast = self.cast(&scope, &run_id, &entry.plan, order.acting.as_ref()).await?;
        match &order.target {
            Target::Workflow(_) => {}
            Target::Agent(agent) => cast.run_single(agent, InvocationSource::RunApi)?,
            Target::Mentioned(agent) => cast.run_single(agent, InvocationSource::ChatMention)?,
            Target::Node(agent) => cast.run_single(agent, InvocationSource::WorkflowNode)?,
        }
        inner.catalog.admit_types(&entry.plan, &cast.pins)?;
        for (node, workflow) in entry.plan.children() {
            if inner.catalog.find(&scope, &workflow).await?.is_none() {
                let node = node.clone();
                return Err(EngineError::UnknownChild { node, workflow });
            }
        }
        inner.directory.admit_models(&order.configurable)?;
        let host = inner.limits();
        let limits = self.admit(&entry.plan, &order, host).await?;
        let budget = RunBudget::admit(&order.configurable, &host, None)?;
        // Before the clock: whatever the run sees was written before it says that it began.
        let as_of = inner.memory.position(&scope.realm()).await?;
        let files = self.files_of(&order.owner, order.mode).await?;
        let at = inner.clock.now();
        let exclusive = order.exclusive;
        let digest = entry.digest.clone();
        let mut birth = order.birth(run_id, workflow_id, digest, cast, (limits, budget), at);
        birth.memory.as_of = as_of;
        birth.files = files;
        birth.from_outside |= entry.plan.reads_outside();
        complete(&mut birth);
        let run = Run::new(Arc::new(birth), entry.plan);
        let mut prepared = self.prepared(run, entry.source);
        prepared.record.exclusive = exclusive;
        Ok(prepared)
    }

    /// Checks what a run is started with. A schema of the definition's may take long over it.
    async fn admit(
        &self,
        plan: &Arc<Plan>,
        order: &Order,
        host: HostLimits,
    ) -> Result<RunLimits, EngineError> {
        if plan.definition().configurable_schema.is_none() {
            return Ok(plan.admit(&order.inputs, &order.configurable, host)?);
        }
        let (plan, inputs) = (Arc::clone(plan), order.inputs.clone());
        let configurable = order.configurable.clone();
        let admit = move || plan.admit(&inputs, &configurable, host);
        Ok(self.inner.decisions.make(Lane::Read, admit).await.map_err(unadmitted)??)
    }

    /// A run that is about to be written. Its creator drives it too, unless it is about to stop or drives as many as
    /// it may: then the run is taken up when it has its turn.
    pub(crate) fn prepared(&self, run: Run, definition: Arc<str>) -> PreparedRun {
        let options = &self.inner.options;
        let tenant = &run.birth().owner.tenant;
        let place = match self.inner.stop.is_cancelled() {
            true => None,
            false if run.birth().parent.is_some() => Some(self.inner.places.take_anyway(tenant)),
            // Whether there is a place only the database can say, for all hosts together.
            false if self.inner.waiting.limits().bounds(&Queue::of(run.birth())) => None,
            false => self.inner.places.take(tenant),
        };
        let until = self.inner.lease_end();
        let lease = place.as_ref().map(|_| Lease { host: options.host.clone(), until });
        let claim = place.map(|place| {
            let claim = Claim {
                run: run.id().clone(),
                host: options.host.clone(),
                epoch: Claim::FIRST_EPOCH,
                origin: ClaimOrigin::Free,
            };
            Granted { claim, until, place }
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
        PreparedRun { record: Box::new(record), claim, run: Box::new(run) }
    }

    /// Writes a run and nothing else.
    pub(crate) fn persist_alone(
        &self,
    ) -> impl FnOnce(Box<NewRun>) -> BoxFuture<'static, Result<(), StoreError>> + Send + 'static
    {
        let store = Arc::clone(&self.inner.store);
        move |record| Box::pin(async move { store.commit(Batch::of_run(*record)).await })
    }

    /// Writes a new run with what its request came to, together with what must be true with it, and begins to drive it.
    ///
    /// On a task of its own: a caller who hangs up between the commit and the first step must neither leave the run
    /// waiting for a lease to end nor leave it uncounted.
    pub(crate) async fn persist_and_drive<Written>(
        &self,
        prepared: PreparedRun,
        remember: Option<Remember>,
        write: impl FnOnce(Box<NewRun>) -> Written + Send + 'static,
    ) -> Result<Done, StoreError>
    where
        Written: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let PreparedRun { mut record, claim, run } = prepared;
        let (id, at) = (run.id().clone(), run.birth().created_at);
        let done = Done { run: id, status: RunStatus::Pending, at };
        record.outcome = remember.map(|remember| remember(&done));
        let (sender, written) = oneshot::channel();
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let outcome = write(record).await;
            let is_created = outcome.is_ok();
            if is_created {
                engine.run_created(run.birth());
                engine.inner.quotas.began(&run.birth().owner.tenant);
            }
            // The caller may be gone; the run is not.
            let _gone = sender.send(outcome);
            match claim.filter(|_| is_created) {
                Some(granted) => engine.drive_held(granted, Some(run)).await,
                // It has its turn when there is a place for its tenant.
                None if is_created && engine.inner.places.want(&run.birth().owner.tenant) => {
                    engine.inner.nudge.notify_one();
                }
                None => {}
            }
        });
        let stopping = |_| Err(StoreError::Unavailable("the host is stopping".into()));
        written.await.unwrap_or_else(stopping).map(|()| done)
    }
}

/// Options that take too long to check are as wrong as those that do not pass.
fn unadmitted(why: Undecided) -> EngineError {
    match why {
        Undecided::NoThreads => StoreError::Unavailable(why.to_string()).into(),
        why => EngineError::Inadmissible(Inadmissible {
            code: "validation_error",
            path: "configurable".to_owned(),
            message: format!("cannot be checked against configurableSchema: {why}"),
            details: Object::new(),
        }),
    }
}

/// Keeps a run from being made a second time under the same key.
pub(crate) fn only_once(key: Digest, expires_at: Timestamp) -> Remember {
    Arc::new(move |done| Outcome {
        key,
        request: key,
        status: 201,
        body: done.run.to_string(),
        expires_at,
    })
}
