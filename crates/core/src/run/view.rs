//! What others need to know of a run: what it is owed, when to look again, and what readers see.

use callboard_protocol::{
    AgentRef, AgentSession, EVENT_LOG_SCHEMA_VERSION, Failure, ForkSnapshot, NodeId, NodeSnapshot,
    Object, RunMetrics, RunSnapshot, RunStatus, Timestamp, TypeId, WorkflowNode,
};
use serde_json::Value;

use super::{Answered, KeptModels, OutcomeCounts, Phase, Run, Stage};
use crate::birth::AgentPin;
use crate::graph::NodeIndex;
use crate::head::Head;
use crate::node::{NodeKind, takes_credentials};
use crate::work::Work;

/// One try at performing a node. Exact also in loops, because the visit is part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    pub node: NodeId,
    pub visit: u32,
    pub number: u32,
}

/// All that an activity is given of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub attempt: Attempt,
    pub type_id: TypeId,
    pub config: Object,
    pub inputs: Object,
    /// The agent that is to perform it.
    pub agent: Option<AgentPin>,
    /// The agent that the definition names, installed or not.
    pub named: Option<AgentRef>,
    /// How many facts the visit has recorded before.
    pub facts_recorded: u32,
    /// How the last question that an earlier attempt asked was settled.
    pub answer: Option<Answered>,
    /// The last of those answers that was not about a budget.
    pub decision: Option<Answered>,
    /// How many outcomes of outward calls the visit has recorded before.
    pub outcomes: OutcomeCounts,
    /// Which models the visit must go on with.
    pub models: KeptModels,
    /// Where a coding agent worked in an earlier attempt of this visit.
    pub session: Option<AgentSession>,
    /// Whether an agent has called a tool in this visit.
    pub has_called_tools: bool,
}

/// What a run may hold whose steps are short: copying so much takes microseconds.
const LIGHT_BYTES: usize = 64 << 10;
/// How long the log of such a run may be.
const LIGHT_EVENTS: u64 = 4096;

impl Run {
    /// Whether whatever happens to this run next is short by construction: its plan is plain, nobody else's outcomes
    /// reach it, and what it holds is small.
    pub fn is_light(&self) -> bool {
        self.weight() <= LIGHT_BYTES
            && self.version <= LIGHT_EVENTS
            && self.birth.agents.is_empty()
            && self.birth.fork.is_none()
            && self.plan.is_plain()
    }

    /// What the run holds at most, as its values are weighed: what it was given counts twice, since it is kept as it was.
    pub fn weight(&self) -> usize {
        self.values.taken.saturating_add(self.values.given)
    }

    /// The attempts that must be performed. Derived from the state alone, so that starting, recovery and takeover
    /// are the same code.
    pub fn attempts(&self) -> impl Iterator<Item = Attempt> + '_ {
        self.owed().map(|index| self.attempt(index))
    }

    fn owed(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        // A replay performs nothing: what its source's attempts came to is in the source's log.
        let is_running =
            self.lifecycle.phase == Phase::Running && !self.is_ending() && !self.birth.is_replay();
        self.flow.active.iter().copied().filter(move |index| {
            let state = &self.nodes[*index];
            is_running
                && state.stage == Stage::Active
                && state.unresolved.is_none()
                && self.kind(*index).is_performed()
                && !self.interrupts.contains_key(index)
        })
    }

    /// The attempts that are owed, with what they need.
    pub fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        self.owed().map(|index| {
            let (node, state) = (self.plan.node(index), &self.nodes[index]);
            Task {
                attempt: self.attempt(index),
                type_id: node.node.type_id.clone(),
                config: performed_config(&node.node),
                inputs: self.performed_inputs(index),
                agent: self.pin(index).cloned(),
                named: node.node.agent.clone(),
                facts_recorded: state.facts,
                answer: state.resumed.clone(),
                decision: state.decided.clone(),
                outcomes: state.recorded.outcomes(),
                models: self.kept_models(index),
                session: state.recorded.session().cloned(),
                has_called_tools: state.recorded.has_called_tools(),
            }
        })
    }

    /// The prompts that the definition names for its nodes: kind → ref.
    pub fn prompt_defaults(&self) -> Option<&Object> {
        self.plan.definition().defaults.as_ref()?.prompt_refs.as_ref()
    }

    /// When the run's own clock moves it next, if nobody else does.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        if self.lifecycle.phase == Phase::Pending {
            return Some(self.birth.created_at);
        }
        if self.follow_up(self.lifecycle.updated_at, &mut Work::default()).is_some() {
            return Some(self.lifecycle.updated_at);
        }
        if self.lifecycle.phase != Phase::Running {
            return None;
        }
        let questions = self.flow.active.iter().filter_map(|index| {
            let open = self.interrupts.get(index)?;
            open.deadline().filter(|_| self.nodes[*index].stage == Stage::Suspended)
        });
        let deadline = self.lifecycle.started_at.map(|started| {
            started.plus_millis(self.birth.limits.duration_ms).plus_millis(self.lifecycle.paused_ms)
        });
        self.own_timers().chain(questions).chain(deadline).min()
    }

    /// The times at which the run moves by itself, without an answer.
    pub(super) fn own_timers(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let nodes = self.flow.active.iter().filter_map(|index| match self.nodes[*index].stage {
            Stage::Retrying { not_before } => self.stops.drain.is_none().then_some(not_before),
            Stage::Active => match self.kind(*index) {
                NodeKind::Delay | NodeKind::Hold => self.delay_ends(*index).ok(),
                NodeKind::Wait => self.wait_ends(*index).ok(),
                _ => None,
            },
            _ => None,
        });
        let triggers = (0..self.flow.due_triggers.len()).filter_map(|place| self.fires_at(place));
        nodes.chain(triggers)
    }

    pub fn head(&self) -> Head {
        let is_owed = self.owed().next().is_some() || self.owes_children();
        let wake_at = if is_owed { Some(self.lifecycle.updated_at) } else { self.wakes_at() };
        Head {
            status: self.status(),
            version: self.version,
            wake_at,
            updated_at: self.lifecycle.updated_at,
        }
    }

    /// When the newest attempt of a node began.
    pub fn node_started_at(&self, node: &NodeId) -> Option<Timestamp> {
        self.plan.index(node).and_then(|index| self.nodes[index].started_at)
    }

    pub fn status(&self) -> RunStatus {
        match &self.lifecycle.phase {
            Phase::Pending => RunStatus::Pending,
            Phase::Running if self.stops.cancel.is_some() => RunStatus::Cancelling,
            Phase::Running => {
                self.waiting_status().map_or(RunStatus::Running, |(_, status)| status)
            }
            Phase::Paused { .. } => RunStatus::Paused,
            Phase::Ended { status, .. } => *status,
        }
    }

    /// The run for readers, with everything sensitive masked.
    pub fn snapshot(&self) -> RunSnapshot {
        let birth = &self.birth;
        let (completed_at, error) = match &self.lifecycle.phase {
            Phase::Ended { at, error, .. } => (Some(*at), error.clone()),
            Phase::Pending | Phase::Running | Phase::Paused { .. } => (None, None),
        };
        RunSnapshot {
            run_id: birth.run_id.clone(),
            workflow_id: birth.workflow_id.clone(),
            status: self.status(),
            owner: Some(birth.owner.clone()),
            current_node_id: self.waiting_node(),
            created_at: birth.created_at,
            started_at: self.lifecycle.started_at,
            completed_at,
            variables: self.visible_variables(),
            channels: self.visible_channels(),
            node_states: self.node_snapshots(),
            error: error.map(|error| self.masked_failure(&error)),
            event_log_schema_version: EVENT_LOG_SCHEMA_VERSION,
            tags: birth.tags.clone(),
            metadata: birth.metadata.clone().map(|bag| self.blotted(bag)),
            configurable: (!birth.configurable.is_empty())
                .then(|| self.blotted(birth.configurable.clone())),
            workspace: birth.files.clone(),
            metrics: self.models.cost.clone().map(|openwop_cost| RunMetrics { openwop_cost }),
            last_sequence: self.version.checked_sub(1),
            agent: self.shown_agent(),
            run_orchestrator: self.orchestra.agent.clone(),
            parent_run_id: birth.parent.as_ref().map(|parent| parent.run_id.clone()),
            parent_node_id: birth.parent.as_ref().map(|parent| parent.node_id.clone()),
            inputs: birth.parent.as_ref().map(|_| self.given_inputs()),
            child_runs: self.child_snapshots(),
            fork: birth.fork.as_ref().map(|fork| ForkSnapshot {
                source_run_id: fork.source.clone(),
                from_seq: fork.from,
                mode: fork.mode,
            }),
        }
    }

    /// Whether there is a child to start or to listen to.
    pub fn has_children_to_sync(&self) -> bool {
        !self.live_children().is_empty() || !self.child_orders().is_empty()
    }

    /// Whether a child must be started or ended before the run may rest.
    pub fn owes_children(&self) -> bool {
        !self.child_orders().is_empty() || self.live_children().iter().any(|child| child.must_end)
    }

    fn waiting_node(&self) -> Option<NodeId> {
        let is_waiting = self.status().is_waiting();
        self.waiting_status().filter(|_| is_waiting).map(|(index, _)| self.node_id(index))
    }

    pub(super) fn masked_value(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.mask().redact_marked(&mut value);
        self.mask().redact_credentials(&mut value);
        value
    }

    fn given_inputs(&self) -> Object {
        let mut inputs = self.birth.inputs.clone();
        self.mask().variables(&mut inputs);
        self.swept(inputs)
    }

    fn visible_variables(&self) -> Object {
        let mut bag = self.values.variables.clone();
        // A channel that only its writers declare is read as a variable of the same name.
        for (name, channel) in &self.values.channels {
            if self.plan.channel(name).is_none() {
                bag.insert(name.to_string(), channel.value.clone());
            }
        }
        self.mask().variables(&mut bag);
        self.swept(bag)
    }

    fn visible_channels(&self) -> Option<Object> {
        if self.values.channels.is_empty() {
            return None;
        }
        let mut bag: Object = self
            .values
            .channels
            .iter()
            .map(|(name, channel)| (name.to_string(), channel.value.clone()))
            .collect();
        self.mask().channels(&mut bag);
        Some(self.swept(bag))
    }

    /// What a caller gave beside the inputs, which no definition marks.
    fn blotted(&self, bag: Object) -> Object {
        let mut value = Value::Object(bag);
        self.mask().redact_credentials(&mut value);
        match value {
            Value::Object(bag) => bag,
            _ => Object::new(),
        }
    }

    fn swept(&self, bag: Object) -> Object {
        let mut value = Value::Object(bag);
        self.mask().redact_marked(&mut value);
        self.mask().redact_credentials(&mut value);
        match value {
            Value::Object(bag) => bag,
            _ => Object::new(),
        }
    }

    fn masked_failure(&self, failure: &Failure) -> Failure {
        let mut message = Value::String(failure.message.clone());
        self.mask().redact_marked(&mut message);
        self.mask().redact_credentials(&mut message);
        let details = failure.details.clone().map(|details| self.swept(details));
        Failure {
            code: failure.code.clone(),
            message: message.as_str().unwrap_or_default().to_owned(),
            details,
        }
    }

    fn node_snapshots(&self) -> std::collections::BTreeMap<NodeId, NodeSnapshot> {
        let reached = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, state)| state.stage != Stage::Waiting || state.visit > 0);
        reached
            .map(|(index, state)| {
                let error = match &state.stage {
                    Stage::Failed(failure) => Some(self.masked_failure(failure)),
                    _ => None,
                };
                let has_started = state.started_at.is_some();
                let snapshot = NodeSnapshot {
                    status: stage_name(&state.stage).into(),
                    visit: state.visit,
                    attempts: if has_started { state.attempt + 1 } else { 0 },
                    started_at: state.started_at,
                    ended_at: state.ended_at,
                    error,
                };
                (self.node_id(index), snapshot)
            })
            .collect()
    }
}

fn stage_name(stage: &Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting",
        Stage::Active => "running",
        Stage::Interrupted => "interrupted",
        Stage::Retrying { .. } => "retrying",
        Stage::Suspended => "suspended",
        Stage::Completed => "completed",
        Stage::Failed(_) => "failed",
        Stage::Skipped => "skipped",
        Stage::Cancelled => "cancelled",
    }
}

/// A node's configuration, with the name of its credential where its type takes one.
fn performed_config(node: &WorkflowNode) -> Object {
    let mut config = node.config.clone();
    if let Some(name) = node.credentials_ref.as_ref().filter(|_| takes_credentials(&node.type_id)) {
        config.insert("credentialsRef".to_owned(), name.clone().into());
    }
    config
}
