//! Runs of the host's own: they state facts that belong to the run of no workflow, or do a chore. Everything of the kind
//! is built here: these steps, for this owner, at this time, once per key.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use callboard_core::{Run, STATEMENT};
use callboard_protocol::{Owner, Timestamp, WorkflowId};

use crate::directory::AgentBindings;
use crate::engine::{Done, Engine, EngineError, PreparedRun, only_once};
use crate::order::{Order, Target};
use crate::store::{Digest, KeyMode};

/// What the host states or does in one run, step after step.
#[derive(Debug, Clone)]
pub struct AuditRun {
    /// What the run is listed under. No catalog holds it.
    workflow: WorkflowId,
    owner: Owner,
    mode: KeyMode,
    tags: Vec<String>,
    scope_id: Option<String>,
    /// How much of memory the run sees.
    as_of: u64,
    steps: Vec<Value>,
}

/// Until when a run is not made again under the same key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OncePer {
    pub(crate) key: Digest,
    pub(crate) until: Timestamp,
}

impl AuditRun {
    pub fn new(workflow: &str, owner: Owner, mode: KeyMode) -> Self {
        Self {
            workflow: workflow.into(),
            owner,
            mode,
            tags: Vec::new(),
            scope_id: None,
            as_of: 0,
            steps: Vec::new(),
        }
    }

    #[must_use]
    pub fn tagged(mut self, tag: impl ToString) -> Self {
        self.tags.push(tag.to_string());
        self
    }

    /// States a fact: an event of this kind, in the log of the run.
    #[must_use]
    pub fn stating(self, step: &str, kind: &str, payload: &impl Serialize) -> Self {
        self.doing(step, STATEMENT, json!({ "type": kind, "payload": payload }))
    }

    /// Has a node of this type performed.
    #[must_use]
    pub fn doing(mut self, step: &str, type_id: &str, config: Value) -> Self {
        self.steps.push(json!({ "id": step, "typeId": type_id, "name": step,
            "position": { "x": 0, "y": 0 }, "config": config, "inputs": {} }));
        self
    }

    /// What the run sees of memory: this part of it, so far.
    #[must_use]
    pub(crate) fn seeing(mut self, scope_id: Option<String>, as_of: u64) -> Self {
        (self.scope_id, self.as_of) = (scope_id, as_of);
        self
    }

    /// The workflow of the run: its steps, one after the other.
    pub fn definition(&self) -> Value {
        let edges = self.steps.windows(2).enumerate().map(|(place, pair)| {
            let (from, to) = (&pair[0]["id"], &pair[1]["id"]);
            json!({ "id": format!("e{}", place + 1), "sourceNodeId": from, "targetNodeId": to })
        });
        json!({
            "id": self.workflow, "name": self.workflow, "version": "1.0", "nodes": self.steps,
            "edges": edges.collect::<Vec<_>>(), "triggers": [], "variables": [], "metadata": {},
            "settings": {},
        })
    }
}

impl Engine {
    /// Records a run of the host's own that stands for itself.
    pub async fn audit(&self, audit: AuditRun, at: Timestamp) -> Result<Done, EngineError> {
        let prepared = self.prepare_audit(audit, at)?;
        Ok(self.persist_and_drive(prepared, None, self.persist_alone()).await?)
    }

    /// The same at most once per key.
    pub(crate) async fn audit_once(
        &self,
        audit: AuditRun,
        at: Timestamp,
        once: OncePer,
    ) -> Result<Done, EngineError> {
        let remember = Some(only_once(once.key, once.until));
        let prepared = self.prepare_audit(audit, at)?;
        Ok(self.persist_and_drive(prepared, remember, self.persist_alone()).await?)
    }

    /// A run of the host's own, to be written with what it states.
    pub(crate) fn prepare_audit(
        &self,
        audit: AuditRun,
        at: Timestamp,
    ) -> Result<PreparedRun, EngineError> {
        let definition: Arc<str> = Arc::from(audit.definition().to_string());
        let AuditRun { workflow, owner, mode, tags, scope_id, as_of, .. } = audit;
        let (digest, plan) = self.inner.catalog.plan_of(&definition)?;
        let target = Target::Workflow(workflow.clone());
        let order = Order { tags, scope_id, ..Order::new(target, owner, mode) };
        let limits = plan.admit(&order.inputs, &order.configurable, self.limits())?;
        let (run, nobody) = (self.inner.ids.run_id(), AgentBindings::default());
        let mut birth = order.birth(run, workflow, digest, nobody, (limits, None), at);
        birth.memory.as_of = as_of;
        Ok(self.prepared(Run::new(Arc::new(birth), plan), definition))
    }
}
