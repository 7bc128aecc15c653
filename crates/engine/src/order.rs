//! An order for a run, and the birth record that it becomes.

use callboard_core::{Birth, MemoryBirth, RunBudget, RunLimits, Stamp, TraceContext, redact_text};
use callboard_protocol::{Dialect, ENGINE_VERSION, Object, Owner, RunId, Timestamp, WorkflowId};

use crate::directory::AgentBindings;
use crate::fire::Acting;
use crate::store::KeyMode;

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
    /// Where its questions are brought; an address that the delivery loop has admitted.
    pub callback_url: Option<String>,
    pub forced_engine_version: Option<u32>,
    /// `X-Dedup: enforce`.
    pub exclusive: bool,
    /// The caller's trace.
    pub trace: Option<TraceContext>,
    /// The standing member that a fire is for. Where it is none, a member that the target or a node names is it.
    pub acting: Option<Acting>,
    /// Through which major of the protocol it was ordered.
    pub dialect: Dialect,
}

/// What a run is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Workflow(WorkflowId),
    /// An agent or a standing member alone; the inputs are its task.
    Agent(String),
    /// The same, because a message mentioned it.
    Mentioned(String),
    /// The same, as a node of a workflow that has no other.
    Node(String),
}

impl Order {
    /// A run of `target` that is given nothing, and of which nothing more is said.
    pub fn new(target: Target, owner: Owner, mode: KeyMode) -> Self {
        Self {
            target,
            owner,
            mode,
            inputs: Object::new(),
            configurable: Object::new(),
            tags: Vec::new(),
            metadata: None,
            scope_id: None,
            callback_url: None,
            forced_engine_version: None,
            exclusive: false,
            trace: None,
            acting: None,
            dialect: Dialect::V1,
        }
    }

    pub(crate) fn birth(
        self,
        run_id: RunId,
        workflow_id: WorkflowId,
        definition: String,
        cast: AgentBindings,
        (limits, budget): (RunLimits, Option<RunBudget>),
        at: Timestamp,
    ) -> Birth {
        let memory = MemoryBirth {
            scope_id: self.scope_id.clone().unwrap_or_default(),
            family: Some(run_id.clone()),
            ..MemoryBirth::default()
        };
        let attribution = cast.acting.map(|acting| acting.attribution(&workflow_id));
        Birth {
            stamp: Some(Stamp::of_owner(&self.owner, self.dialect)),
            charged_to: attribution.as_ref().map(|attribution| attribution.roster_id.clone()),
            attribution,
            budget,
            run_id,
            workflow_id,
            definition,
            owner: self.owner,
            test: self.mode == KeyMode::Test,
            inputs: self.inputs,
            configurable: self.configurable,
            // Tags are for lists, which many read and no node.
            tags: self.tags.iter().map(|tag| redact_text(tag)).collect(),
            metadata: self.metadata,
            scope_id: self.scope_id,
            callback_url: self.callback_url,
            created_at: at,
            engine_version: ENGINE_VERSION,
            forced_engine_version: self.forced_engine_version,
            limits,
            parent: None,
            unset: Vec::new(),
            fork: None,
            agents: cast.pins,
            memory,
            delivery: None,
            from_outside: false,
            principal_scope: None,
            files: Vec::new(),
            trace: self.trace,
        }
    }
}
