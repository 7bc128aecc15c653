//! The compiled configurations of `core.orchestrator.supervisor` and `core.dispatch`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::{ChannelName, WorkflowDefinition, WorkflowNode, parse_value};

use super::{MAX_FAN_OUT, OrchestratorDecision};
use crate::child::MemoryScope;
use crate::confidence::Confidence;
use crate::plan::PlanError;

/// Workflows of this name exist for conformance tests, and only they may leave everything to a default.
const CONFORMANCE: &str = "conformance-";
/// What the default plan gives work to: the smallest workflow of the conformance suite.
const DEFAULT_WORKER: &str = "conformance-noop";

/// Where a supervisor's decisions come from, if not from an agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SupervisorPlan {
    /// One decision for each turn; a supervisor that has none of its own needs an agent.
    script: Option<Vec<OrchestratorDecision>>,
    /// How sure the supervisor is of the script, where it says so of itself.
    pub(crate) own_confidence: Option<Confidence>,
    /// Who decides, where the configuration says so.
    pub(crate) agent_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SupervisorConfig {
    mock_dispatch_plan: Option<Vec<Value>>,
    mock_decisions: Option<Vec<Value>>,
    mock_confidence: Option<Value>,
    mock_pending_decision: Option<Value>,
    agent_id: Option<String>,
}

impl SupervisorPlan {
    pub(crate) fn of(
        node: &WorkflowNode,
        definition: &WorkflowDefinition,
    ) -> Result<Self, PlanError> {
        let config: SupervisorConfig =
            parse_value(node.config.clone().into()).map_err(|error| refused(node, error))?;
        if config.agent_id.as_deref().is_some_and(|id| !(3..=256).contains(&id.chars().count())) {
            return Err(refuse(node, ".agentId", "must have 3 to 256 characters".into()));
        }
        let (key, listed) = match (config.mock_pending_decision, config.mock_dispatch_plan) {
            (Some(held), _) => ("mockPendingDecision", Some(vec![held])),
            (None, Some(plan)) => ("mockDispatchPlan", Some(plan)),
            (None, None) => ("mockDecisions", config.mock_decisions),
        };
        let is_conformance = definition.id.as_str().starts_with(CONFORMANCE);
        let listed = match listed {
            None if is_conformance && node.agent.is_none() => Some(default_plan()),
            None if node.agent.is_none() => {
                let message = "needs an agent, or a plan in mockDispatchPlan";
                return Err(refuse(node, "", message.into()));
            }
            listed => listed,
        };
        let read = |(place, value): (usize, &Value)| {
            let path = format!(".{key}[{place}]");
            OrchestratorDecision::read(value).map_err(|why| refuse(node, &path, why))
        };
        let script = listed.map(|listed| listed.iter().enumerate().map(read).collect());
        Ok(Self {
            script: script.transpose()?,
            own_confidence: Confidence::read(config.mock_confidence.as_ref()),
            agent_id: config.agent_id,
        })
    }

    /// What is decided in a turn; turns count from zero.
    pub(crate) fn decision(&self, turn: u32) -> Option<&OrchestratorDecision> {
        self.script.as_ref()?.get(usize::try_from(turn).ok()?)
    }

    /// Whether there may be a decision in a turn. A script comes to an end by itself, an agent does not.
    pub(crate) fn goes_on(&self, turn: u32) -> bool {
        self.script.is_none() || self.decision(turn).is_some()
    }
}

fn default_plan() -> Vec<Value> {
    vec![
        json!({ "kind": "next-worker", "nextWorkerIds": [DEFAULT_WORKER] }),
        json!({ "kind": "terminate" }),
    ]
}

/// What a dispatching node does with a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DispatchPlan {
    #[serde(default)]
    pub(crate) ask_user_routing: AskUserRouting,
    #[serde(default, rename = "workerDispatchModel")]
    _model: WorkerDispatchModel,
    #[serde(default)]
    pub(crate) fan_out_policy: FanOut,
    join_policy: Option<JoinPolicy>,
    max_concurrency: Option<NonZeroU32>,
    pub(crate) iteration_cap: Option<NonZeroU32>,
    /// Child variable → parent variable.
    #[serde(default)]
    input_mapping: Mapping,
    /// Parent variable → child variable.
    #[serde(default)]
    output_mapping: Mapping,
    #[serde(default)]
    per_worker_input_mappings: BTreeMap<String, Mapping>,
    #[serde(default)]
    per_worker_output_mappings: BTreeMap<String, Mapping>,
    #[serde(default)]
    pub(crate) memory_scope_isolation: MemoryScope,
}

pub(crate) type Mapping = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AskUserRouting {
    Conversation,
    Clarification,
    /// A conversation, which this host can hold.
    #[default]
    Auto,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WorkerDispatchModel {
    #[default]
    ChildRun,
}

/// What becomes of a decision that names several workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FanOut {
    #[default]
    Sequential,
    Reject,
    Parallel,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JoinPolicy {
    #[serde(default)]
    mode: JoinModeName,
    quorum: Option<NonZeroU32>,
    #[serde(default)]
    on_child_failure: OnWorkerFailure,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum JoinModeName {
    #[default]
    WaitAll,
    Quorum,
    First,
    Race,
}

/// When workers side by side have come to something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinMode {
    All,
    /// So many have completed.
    Completed(u32),
    /// One has ended, however.
    Any,
}

/// What a worker's failure means for those beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnWorkerFailure {
    #[default]
    Collect,
    FailFast,
    Absorb,
}

impl DispatchPlan {
    pub(crate) fn of(
        node: &WorkflowNode,
        definition: &WorkflowDefinition,
    ) -> Result<Self, PlanError> {
        let plan: Self =
            parse_value(node.config.clone().into()).map_err(|error| refused(node, error))?;
        let is_supervisor =
            |node: &WorkflowNode| node.type_id.as_str() == "core.orchestrator.supervisor";
        if !definition.nodes.iter().any(is_supervisor) {
            let message = "needs a core.orchestrator.supervisor in the same workflow";
            return Err(refuse(node, "", message.into()));
        }
        if plan.fan_out_policy != FanOut::Parallel {
            let only_parallel = [
                ("joinPolicy", plan.join_policy.is_some()),
                ("maxConcurrency", plan.max_concurrency.is_some()),
            ];
            if let Some((key, _)) = only_parallel.into_iter().find(|(_, is_set)| *is_set) {
                let message = "is for the fanOutPolicy parallel alone";
                return Err(refuse(node, &format!(".{key}"), message.into()));
            }
        }
        let join = plan.join_policy.unwrap_or_default();
        if (join.mode == JoinModeName::Quorum) != join.quorum.is_some() {
            let message = "the mode quorum and a quorum belong together";
            return Err(refuse(node, ".joinPolicy", message.into()));
        }
        let is_channel = |name: &&String| {
            let name = ChannelName::from(name.as_str());
            definition.channels.as_ref().is_some_and(|channels| channels.contains_key(&name))
        };
        let mut written = plan
            .output_mapping
            .keys()
            .chain(plan.per_worker_output_mappings.values().flat_map(BTreeMap::keys));
        match written.find(is_channel) {
            Some(name) => {
                let message = format!("{name} is a channel; a child cannot write to it");
                Err(refuse(node, ".outputMapping", message))
            }
            None => Ok(plan),
        }
    }

    /// For workers that the node itself names, and no supervisor.
    pub(crate) fn side_by_side(at_once: NonZeroU32, on_child_failure: OnWorkerFailure) -> Self {
        Self {
            fan_out_policy: FanOut::Parallel,
            max_concurrency: Some(at_once),
            join_policy: Some(JoinPolicy { on_child_failure, ..JoinPolicy::default() }),
            ..Self::default()
        }
    }

    /// What a worker gets; its own mapping stands in place of the common one.
    pub(crate) fn inputs_of(&self, worker: &str) -> &Mapping {
        self.per_worker_input_mappings.get(worker).unwrap_or(&self.input_mapping)
    }

    /// What is taken over from a worker.
    pub(crate) fn outputs_of(&self, worker: &str) -> &Mapping {
        self.per_worker_output_mappings.get(worker).unwrap_or(&self.output_mapping)
    }

    /// How many workers may be at work at the same time.
    pub(crate) fn concurrency(&self) -> usize {
        let asked = self.max_concurrency.map_or(MAX_FAN_OUT, NonZeroU32::get);
        usize::try_from(asked.min(MAX_FAN_OUT)).unwrap_or(usize::MAX)
    }

    pub(crate) fn join_mode(&self) -> JoinMode {
        let join = self.join_policy.unwrap_or_default();
        match join.mode {
            JoinModeName::WaitAll => JoinMode::All,
            JoinModeName::Quorum => JoinMode::Completed(join.quorum.map_or(1, NonZeroU32::get)),
            JoinModeName::First => JoinMode::Completed(1),
            JoinModeName::Race => JoinMode::Any,
        }
    }

    pub(crate) fn on_failure(&self) -> OnWorkerFailure {
        self.join_policy.unwrap_or_default().on_child_failure
    }
}

fn refused(node: &WorkflowNode, error: callboard_protocol::ShapeError) -> PlanError {
    let place = if error.path.is_empty() { String::new() } else { format!(".{}", error.path) };
    refuse(node, &place, error.message)
}

fn refuse(node: &WorkflowNode, field: &str, message: String) -> PlanError {
    PlanError { path: format!("nodes.{}.config{field}", node.id), message }
}
