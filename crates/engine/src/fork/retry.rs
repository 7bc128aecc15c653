//! A new run that goes on where another failed or was stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use callboard_core::{AgentPin, Birth, Plan, RetryChange, RetryTerms, Run, RunBudget, retry_place};
use callboard_protocol::{
    Dialect, ForkMode, NodeId, Object, Owner, RunId, WorkflowDefinition, WorkflowId,
};

use super::{ForkOrder, Overlay, left_at};
use crate::decisions::Lane;
use crate::directory::agent_of;
use crate::engine::{Done, Engine, EngineError, Remember, only_once};
use crate::fire::Acting;
use crate::store::{Digest, KeyMode, Opened, Scope, StoreError};

/// How long a run that was retried among many is not retried again in the same way.
const RETRIED_ONCE_FOR: Duration = Duration::from_secs(30 * 86_400);

/// A retry to be made.
#[derive(Debug, Clone)]
pub struct RetryOrder {
    pub source: RunId,
    /// The node to go on from, besides those that failed.
    pub from: Option<NodeId>,
    pub definition: RetryDefinition,
    /// Laid over the source's inputs, key by key.
    pub inputs: Object,
    /// The retry acts as the caller that asked for it.
    pub owner: Owner,
    pub key_mode: KeyMode,
}

/// What a retry goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDefinition {
    /// The definition and the agents that its source keeps.
    Pinned,
    /// Those that a new run would get now.
    Newest,
}

/// A retry that was checked and is not made yet. Its source has ended and does not change any more.
#[derive(Debug)]
pub struct PlannedRetry {
    pub source: RunId,
    pub workflow: WorkflowId,
    /// The first event of the source that is not taken over.
    pub from_seq: u64,
    /// The nodes that are done again.
    pub nodes: Vec<NodeId>,
    run: Box<Run>,
    definition: Arc<str>,
}

impl PlannedRetry {
    /// What the retry runs: the source's definition, or the newest.
    pub fn workflow_definition(&self) -> &WorkflowDefinition {
        self.run.plan().definition()
    }
}

/// The outcome of a retry that is made once, however often it is requested.
#[derive(Debug)]
pub enum RetriedOnce {
    /// What would be done again; nothing was written.
    Planned(PlannedRetry),
    Made {
        run: RunId,
        from_seq: u64,
        nodes: Vec<NodeId>,
    },
    /// It was retried in this way before, as this run.
    Before(RunId),
}

/// What a run is made from.
struct Basis {
    digest: String,
    source: Arc<str>,
    plan: Arc<Plan>,
    agents: BTreeMap<NodeId, AgentPin>,
}

impl Engine {
    /// Finds what a retry keeps and does again. Nothing is written.
    pub async fn plan_retry(
        &self,
        scope: &Scope,
        order: RetryOrder,
    ) -> Result<PlannedRetry, EngineError> {
        let RetryOrder { source, from, definition, inputs, owner, key_mode } = order;
        let overlay = Overlay::default();
        let (mode, dialect) = (ForkMode::Branch, Dialect::V1);
        let mut fork = ForkOrder { source, from: 0, mode, owner, key_mode, overlay, dialect };
        let opened = self.visible_source(scope, &fork).await?;
        let run = fork.source.clone();
        let refused = |refusal| EngineError::NotRetryable { run: run.clone(), refusal };
        let place = retry_place(&opened.entries, from.as_ref()).map_err(refused)?;
        fork.from = place as u64;
        self.refuse_without_memory(scope, &fork, &opened.birth).await?;
        let run_id = self.inner.ids.run_id();
        let basis = match definition {
            RetryDefinition::Pinned => self.pinned_basis(&opened).await?,
            RetryDefinition::Newest => self.newest_basis(&run_id, &opened.birth).await?,
        };
        let changed = match definition {
            RetryDefinition::Newest => RetryChange::Definition,
            RetryDefinition::Pinned if inputs.is_empty() => RetryChange::Nothing,
            RetryDefinition::Pinned => RetryChange::Inputs,
        };
        let birth = self.birth_of_retry(run_id, fork, &opened, &basis, inputs)?;
        let (workflow, from_seq) = (birth.workflow_id.clone(), place as u64);
        let fresh = Run::new(Arc::new(birth), basis.plan);
        let (entries, terms) = (opened.entries, RetryTerms { from, changed });
        let retry = move |fresh: Box<Run>| {
            let (history, ended) = entries.split_at(place);
            fresh.retry(history, ended, &terms).map(Box::new)
        };
        let run = self.with_run(Lane::Read, Box::new(fresh), retry).await?.map_err(refused)?;
        let retry = run.birth().fork.as_ref().and_then(|fork| fork.retry.as_ref());
        let nodes = retry.iter().flat_map(|retry| &retry.nodes);
        let nodes = nodes.map(|one| one.node_id.clone()).collect();
        let source = fork_source(&run);
        Ok(PlannedRetry { source, workflow, from_seq, nodes, run, definition: basis.source })
    }

    /// Makes a retry. The source is only read.
    pub async fn retry(
        &self,
        planned: PlannedRetry,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        let prepared = self.prepared(*planned.run, planned.definition);
        Ok(self.persist_and_drive(prepared, remember, self.persist_alone()).await?)
    }

    /// Makes a retry, unless the same one was made before: a caller that retries many and is lost halfway asks again.
    pub async fn retry_once(
        &self,
        scope: &Scope,
        order: RetryOrder,
        dry_run: DryRun,
    ) -> Result<RetriedOnce, EngineError> {
        let key = key_of(scope, &order);
        let now = self.inner.clock.now();
        // A caller that may not see the source learns nothing of its retries.
        let visible = self.inner.store.find(scope, &order.source).await?;
        visible.ok_or_else(|| EngineError::UnknownRun(order.source.clone()))?;
        if let Some(made) = self.inner.store.outcome(&key, now).await? {
            return Ok(RetriedOnce::Before(made.body.into()));
        }
        let planned = self.plan_retry(scope, order).await?;
        if dry_run == DryRun::Yes {
            return Ok(RetriedOnce::Planned(planned));
        }
        let (from_seq, nodes) = (planned.from_seq, planned.nodes.clone());
        let remember = only_once(key, now.plus(RETRIED_ONCE_FOR));
        match self.retry(planned, Some(remember)).await {
            Ok(done) => Ok(RetriedOnce::Made { run: done.run, from_seq, nodes }),
            Err(EngineError::Store(StoreError::AlreadyDone(made))) => {
                Ok(RetriedOnce::Before(made.body.into()))
            }
            Err(error) => Err(error),
        }
    }

    fn birth_of_retry(
        &self,
        run_id: RunId,
        fork: ForkOrder,
        opened: &Opened,
        basis: &Basis,
        overlay: Object,
    ) -> Result<Birth, EngineError> {
        let (inner, source) = (&self.inner, &opened.birth);
        let mut inputs = source.inputs.clone();
        inputs.extend(overlay);
        let (configurable, host) = (source.configurable.clone(), self.limits());
        inner.catalog.admit_types(&basis.plan, &basis.agents)?;
        inner.directory.admit_models(&configurable)?;
        let limits = basis.plan.admit_child(&inputs, &source.unset, &configurable, host)?;
        let history = usize::try_from(fork.from).unwrap_or(usize::MAX);
        let left_at = left_at(source, opened.entries.get(..history).unwrap_or_default());
        let mut birth = Birth {
            run_id,
            definition: basis.digest.clone(),
            agents: basis.agents.clone(),
            budget: RunBudget::admit(&configurable, &host, None)?,
            configurable,
            inputs,
            limits,
            created_at: inner.clock.now(),
            ..fork.birth(source, opened.entries.len() as u64)
        };
        birth.memory.anchors.push(left_at);
        Ok(birth)
    }

    async fn pinned_basis(&self, opened: &Opened) -> Result<Basis, EngineError> {
        let (digest, source) = (opened.birth.definition.clone(), Arc::clone(&opened.definition));
        let plan = self.inner.catalog.plan(&digest, &source).await.map_err(StoreError::from)?;
        Ok(Basis { digest, source, plan, agents: opened.birth.agents.clone() })
    }

    /// What a new run of the same workflow would be made from, in the place of the one that is retried.
    async fn newest_basis(&self, run_id: &RunId, old: &Birth) -> Result<Basis, EngineError> {
        let (catalog, place, id) = (&self.inner.catalog, Scope::of(old), &old.workflow_id);
        let agent = agent_of(id);
        let entry = match agent {
            Some(agent) => Some(catalog.of_agent(agent).await?),
            None => catalog.find(&place, id).await?,
        };
        let gone = || EngineError::DefinitionGone { run: old.run_id.clone(), workflow: id.clone() };
        let entry = entry.ok_or_else(gone)?;
        let acting = match &old.attribution {
            Some(attribution) => self.inner.roster.member(&place, &attribution.roster_id).await?,
            None => None,
        };
        let acting = acting.map(|member| Acting::by_hand(member.entry));
        let mut agents = self.cast(&place, run_id, &entry.plan, acting.as_ref()).await?.pins;
        if let Some(agent) = agent.filter(|_| agents.is_empty()) {
            return Err(EngineError::UnknownAgent(agent.to_owned()));
        }
        for (node, pin) in &mut agents {
            if let Some(before) = old.agents.get(node) {
                (pin.task, pin.source) = (before.task, before.source);
            }
        }
        for (node, workflow) in entry.plan.children() {
            if catalog.find(&place, &workflow).await?.is_none() {
                let node = node.clone();
                return Err(EngineError::UnknownChild { node, workflow });
            }
        }
        Ok(Basis { digest: entry.digest, source: entry.source, plan: entry.plan, agents })
    }
}

/// Whether a request only says what it would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    Yes,
    No,
}

fn fork_source(run: &Run) -> RunId {
    run.birth().fork.as_ref().map_or_else(|| run.id().clone(), |fork| fork.source.clone())
}

/// By what a retry is known that is made once. No key of a caller reaches it.
fn key_of(scope: &Scope, order: &RetryOrder) -> Digest {
    let definition = match order.definition {
        RetryDefinition::Pinned => "pinned",
        RetryDefinition::Newest => "newest",
    };
    let inputs = serde_json::Value::Object(order.inputs.clone()).to_string();
    let from = order.from.as_ref().map_or("", |node| node.as_str());
    let mut hash = Sha256::new();
    hash.update("callboard:retry");
    for part in [scope.tenant.as_str(), order.source.as_str(), from, definition, &inputs] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
