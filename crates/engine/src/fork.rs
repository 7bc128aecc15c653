//! A new run from a point in another's history.

mod prompts;
mod retry;

use std::sync::Arc;

use callboard_core::{
    Birth, Entry, Fork, MemoryView, ModelTurn, Plan, RefusalDivergence, Run, RunBudget, Stamp,
    model_turns, redact_text,
};
use callboard_protocol::{
    Dialect, ENGINE_VERSION, ForkMode, NodeId, Object, Owner, RunId, Timestamp,
};

use crate::activity::Past;
use crate::decisions::Lane;
use crate::engine::{Done, Engine, EngineError, Remember, SnapshotLoss};
use crate::memory::{MemoryQuery, Place, Seen};
use crate::record::refuse_unreadable;
use crate::store::{KeyMode, Opened, Scope, StoreError};

pub use retry::{DryRun, PlannedRetry, RetriedOnce, RetryDefinition, RetryOrder};

/// A fork to be made.
#[derive(Debug, Clone)]
pub struct ForkOrder {
    pub source: RunId,
    /// The first event of the source that the fork does not take over.
    pub from: u64,
    pub mode: ForkMode,
    /// The fork acts as the caller that asked for it.
    pub owner: Owner,
    pub key_mode: KeyMode,
    /// What a branch changes.
    pub overlay: Overlay,
    /// Through which major of the protocol it was asked for.
    pub dialect: Dialect,
}

/// Options of a branch that differ from its source's. A replay changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overlay {
    /// Laid over the source's options, key by key.
    pub configurable: Object,
    pub tags: Option<Vec<String>>,
    pub metadata: Option<Object>,
}

impl Engine {
    /// Forks a run that the caller may see. The source is only read.
    pub async fn fork(
        &self,
        scope: &Scope,
        order: ForkOrder,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let inner = &self.inner;
        let opened = self.visible_source(scope, &order).await?;
        let source = &opened.birth;
        let until = opened.entries.len() as u64;
        if order.from >= until.max(1) {
            return Err(EngineError::NoSuchEvent { run: order.source, from: order.from, until });
        }
        self.refuse_without_memory(scope, &order, source).await?;
        let plan = inner.catalog.plan(&source.definition, &opened.definition).await;
        let plan = plan.map_err(StoreError::from)?;
        let mut configurable = source.configurable.clone();
        configurable.extend(order.overlay.configurable.clone());
        let (limits, budget) = match order.mode {
            ForkMode::Replay => (source.limits, source.budget.clone()),
            ForkMode::Branch => {
                inner.catalog.admit_types(&plan, &source.agents)?;
                inner.directory.admit_models(&configurable)?;
                let (host, inputs) = (self.limits(), &source.inputs);
                let limits = plan.admit_child(inputs, &source.unset, &configurable, host)?;
                (limits, RunBudget::admit(&configurable, &host, None)?)
            }
        };
        let (from, mode, at) = (order.from, order.mode, inner.clock.now());
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let from = from.min(opened.entries.len());
        let mut birth = Birth {
            run_id: inner.ids.run_id(),
            configurable,
            created_at: at,
            limits,
            budget,
            ..order.birth(source, until)
        };
        match mode {
            ForkMode::Branch => {
                birth.memory.anchors.push(left_at(source, &opened.entries[..from]));
            }
            ForkMode::Replay => {
                self.compare(source, &mut birth, &plan, &opened.entries, from).await;
            }
        }
        let run = Run::new(Arc::new(birth), plan);
        let run = self.fold_fork(run, opened.entries, from, mode).await?;
        let prepared = self.prepared(*run, opened.definition);
        Ok(self.persist_and_drive(prepared, remember, self.persist_alone()).await?)
    }

    /// Gives a fork its history, and a replay what it goes through again.
    async fn fold_fork(
        &self,
        run: Run,
        entries: Vec<Entry>,
        from: usize,
        mode: ForkMode,
    ) -> Result<Box<Run>, EngineError> {
        let fold = move |mut run: Box<Run>| {
            let (history, rest) = entries.split_at(from);
            if mode == ForkMode::Replay {
                *run = run.with_source(rest);
            }
            history.iter().for_each(|entry| run.apply(entry));
            run
        };
        self.with_run(Lane::Read, Box::new(run), fold).await
    }

    /// Finds out where a replay leaves its source.
    async fn compare(
        &self,
        source: &Birth,
        replay: &mut Birth,
        plan: &Arc<Plan>,
        log: &[Entry],
        from: usize,
    ) {
        let past = log.get(from..).unwrap_or_default();
        let refusal = self.rehearse(source, plan, past).await;
        let prompts = self.changed_prompts((source, replay), plan, log, from).await;
        if let Some(fork) = &mut replay.fork {
            (fork.refusal, fork.prompts) = (refusal, prompts);
        }
    }

    /// The first turn of a model that comes out as a refusal today and did not then, or the other way.
    async fn rehearse(
        &self,
        source: &Birth,
        plan: &Plan,
        past: &[Entry],
    ) -> Option<RefusalDivergence> {
        let turns = model_turns(past);
        let mut nodes: Vec<&NodeId> = turns.iter().map(|turn| &turn.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut first: Option<RefusalDivergence> = None;
        for node in nodes {
            let of_node = |turn: &&ModelTurn| turn.node == *node;
            let turns: Vec<ModelTurn> = turns.iter().filter(of_node).cloned().collect();
            let defined = plan.definition().nodes.iter().find(|defined| defined.id == *node);
            let Some(defined) = defined.filter(|_| !source.agents.contains_key(node)) else {
                continue;
            };
            let activity = self.inner.activities.of_type(&defined.type_id);
            let Some(activity) = activity else { continue };
            let past = Past {
                tenant: &source.owner.tenant,
                node,
                config: &defined.config,
                configurable: &source.configurable,
                turns: turns.len(),
            };
            let today = activity.rehearse(past).await;
            let found = RefusalDivergence::between(&turns, &today);
            let earlier =
                |found: &RefusalDivergence| first.as_ref().is_none_or(|first| found.at < first.at);
            first = found.filter(earlier).or(first);
        }
        first
    }

    /// A run that the caller may see and this build can read.
    async fn visible_source(
        &self,
        scope: &Scope,
        order: &ForkOrder,
    ) -> Result<Opened, EngineError> {
        let opened = self.open_source(scope, order).await?;
        let opened = opened.filter(|opened| scope.sees(&opened.birth));
        let opened = opened.ok_or_else(|| EngineError::UnknownRun(order.source.clone()))?;
        if opened.birth.is_from_the_future() {
            return Err(EngineError::FutureVersion {
                run: order.source.clone(),
                persisted: opened.birth.engine_version,
                current: ENGINE_VERSION,
            });
        }
        refuse_unreadable(&order.source, &opened.entries)?;
        Ok(opened)
    }

    /// A log that is there and cannot be read cannot say what its run saw either.
    async fn open_source(
        &self,
        scope: &Scope,
        order: &ForkOrder,
    ) -> Result<Option<Opened>, EngineError> {
        match self.inner.store.open(&order.source).await {
            Err(error @ StoreError::Unreadable { .. }) => {
                if self.inner.store.find(scope, &order.source).await?.is_none() {
                    return Ok(None);
                }
                tracing::error!(%error, run = %order.source, "log not readable; fork refused");
                Err(order.without_memory(SnapshotLoss::EventLogUnavailable))
            }
            opened => Ok(opened?),
        }
    }

    /// A fork must see the memory that its source saw, so that memory is read once before there is a fork.
    async fn refuse_without_memory(
        &self,
        scope: &Scope,
        order: &ForkOrder,
        source: &Birth,
    ) -> Result<(), EngineError> {
        let memory = &self.inner.memory;
        let view = MemoryView { as_of: source.memory.as_of, also: source.memory.also.clone() };
        let (family, anchors) = (source.memory.family.clone(), source.memory.anchors.clone());
        let seen = Seen { view, family, anchors };
        let query = MemoryQuery::new(Place::Anywhere, self.inner.clock.now(), 1);
        let query = MemoryQuery { seen: Some(seen), ..query };
        let probe = async {
            let is_kept = memory.has_snapshot(&order.source).await?;
            memory.recall(scope, &query).await?;
            Ok::<bool, StoreError>(is_kept)
        };
        match probe.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(order.without_memory(SnapshotLoss::RetentionExpired)),
            Err(error) => {
                tracing::warn!(%error, run = %order.source, "memory not readable; fork refused");
                Err(order.without_memory(SnapshotLoss::EventLogUnavailable))
            }
        }
    }
}

/// When a branch left its source: what its source saw of memory then has not expired for it.
fn left_at(source: &Birth, history: &[Entry]) -> Timestamp {
    history.last().map_or(source.created_at, |last| last.at)
}

impl ForkOrder {
    fn without_memory(&self, reason: SnapshotLoss) -> EngineError {
        EngineError::NoMemorySnapshot { run: self.source.clone(), from: self.from, reason }
    }

    /// The source's record with what a fork has of its own.
    fn birth(self, source: &Birth, until: u64) -> Birth {
        let workspace = self.owner.workspace.or_else(|| source.owner.workspace.clone());
        Birth {
            stamp: Some(Stamp::of_fork(source, self.dialect)),
            owner: Owner { workspace, ..self.owner },
            test: self.key_mode == KeyMode::Test,
            tags: self.overlay.tags.map_or_else(
                || source.tags.clone(),
                |tags| tags.iter().map(|tag| redact_text(tag)).collect(),
            ),
            metadata: self.overlay.metadata.or_else(|| source.metadata.clone()),
            scope_id: None,
            // The source's callback address did not ask for this run.
            callback_url: None,
            engine_version: ENGINE_VERSION,
            parent: None,
            // Its own trace, linked to the source's.
            trace: None,
            fork: Some(Fork::of(source, self.mode, self.from, until)),
            ..source.clone()
        }
    }
}
