//! What a node that goes through a list is configured to do with every item: compute a body of steps, or run a workflow.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use callboard_protocol::{NodeId, Object, PortValue, TypeId, WorkflowId, WorkflowNode};
use serde::Deserialize;

use crate::expression::check_expression;
use crate::node::{MOST_ITEMS, PureNode, unfit_config_of};
use crate::orchestrate::{DispatchPlan, MAX_FAN_OUT, OnWorkerFailure};
use crate::plan::PlanError;

/// The input that names the workflow of `core.flow.sub-workflow-invoke`.
pub(crate) const WORKFLOW_REF: &str = "workflowRef";
/// How many runs one node may start: a fifth of what may lie below a run, unless the operator says otherwise.
const MOST_RUNS: usize = 1_000;
/// What needs more steps than this for each item is a workflow.
const MOST_STEPS: usize = 16;
/// How many runs go side by side where nothing is said.
const USUALLY_AT_ONCE: u32 = 4;

/// The configuration of `callboard.each`, as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EachConfig {
    body: Option<Vec<WrittenStep>>,
    workflow_id: Option<WorkflowId>,
    item_as: Option<String>,
    index_as: Option<String>,
    max_concurrency: Option<u32>,
    collect: Option<String>,
    #[serde(default)]
    on_item_failure: OnItemFailure,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenStep {
    id: Option<String>,
    #[serde(alias = "type")]
    type_id: TypeId,
    #[serde(default)]
    config: Object,
    #[serde(default)]
    inputs: BTreeMap<String, PortValue>,
}

/// What becomes of the others when one item fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnItemFailure {
    /// The node fails with it.
    #[default]
    Fail,
    /// It is told beside the results.
    Collect,
}

/// The compiled configuration of `callboard.each`.
#[derive(Debug)]
pub(crate) struct EachPlan {
    pub(crate) work: EachWork,
    /// The one output that is collected; all of them where none is named.
    pub(crate) collect: Option<String>,
    pub(crate) on_item_failure: OnItemFailure,
}

#[derive(Debug)]
pub(crate) enum EachWork {
    Body(Vec<BodyStep>),
    Runs(EachRuns),
}

/// The workflow that is run for every item.
#[derive(Debug)]
pub(crate) struct EachRuns {
    pub(crate) workflow: WorkflowId,
    /// The inputs that hold the item and its index.
    pub(crate) item_as: String,
    pub(crate) index_as: Option<String>,
    at_once: NonZeroU32,
}

/// One step of a body: a node that core computes from what it is given alone.
#[derive(Debug)]
pub(crate) struct BodyStep {
    pub(crate) id: String,
    pub(crate) pure: PureNode,
    pub(crate) config: Object,
    pub(crate) inputs: Vec<(String, BodyPort)>,
}

#[derive(Debug)]
pub(crate) enum BodyPort {
    /// The same for every item.
    Shared(PortValue),
    /// `item.address.city`, which needs no evaluation.
    Path(Vec<String>),
    Expression(String),
}

impl EachPlan {
    pub(crate) fn of(node: &WorkflowNode) -> Result<Self, PlanError> {
        let refuse = |field: &str, message: String| PlanError {
            path: format!("nodes.{}.config{field}", node.id),
            message,
        };
        let config: EachConfig = serde_json::from_value(node.config.clone().into())
            .map_err(|error| refuse("", error.to_string()))?;
        let (item_as, index_as) = (config.item_as, config.index_as);
        let work = match (config.body, config.workflow_id) {
            (Some(_), Some(_)) | (None, None) => {
                return Err(refuse("", "needs either body or workflowId".into()));
            }
            (Some(body), None) => {
                let of_runs = [
                    ("itemAs", item_as.is_some()),
                    ("indexAs", index_as.is_some()),
                    ("maxConcurrency", config.max_concurrency.is_some()),
                ];
                if let Some((key, _)) = of_runs.into_iter().find(|(_, is_set)| *is_set) {
                    return Err(refuse(&format!(".{key}"), "is for a workflowId alone".into()));
                }
                EachWork::Body(body_of(&node.id, body)?)
            }
            (None, Some(workflow)) => {
                let asked = config.max_concurrency.unwrap_or(USUALLY_AT_ONCE);
                let at_once = NonZeroU32::new(asked).filter(|asked| asked.get() <= MAX_FAN_OUT);
                let at_once = at_once.ok_or_else(|| {
                    refuse(".maxConcurrency", format!("must be from 1 to {MAX_FAN_OUT}"))
                })?;
                let item_as = item_as.unwrap_or_else(|| "item".to_owned());
                EachWork::Runs(EachRuns { workflow, item_as, index_as, at_once })
            }
        };
        Ok(Self { work, collect: config.collect, on_item_failure: config.on_item_failure })
    }

    /// The workflow that it starts.
    pub(crate) fn workflow(&self) -> Option<&WorkflowId> {
        match &self.work {
            EachWork::Body(_) => None,
            EachWork::Runs(runs) => Some(&runs.workflow),
        }
    }

    /// How its runs go side by side.
    pub(crate) fn dispatch(&self) -> Option<DispatchPlan> {
        let on_failure = match self.on_item_failure {
            OnItemFailure::Fail => OnWorkerFailure::FailFast,
            OnItemFailure::Collect => OnWorkerFailure::Collect,
        };
        match &self.work {
            EachWork::Body(_) => None,
            EachWork::Runs(runs) => Some(DispatchPlan::side_by_side(runs.at_once, on_failure)),
        }
    }

    /// How many items it goes through at most.
    pub(crate) fn most_items(&self) -> usize {
        match &self.work {
            EachWork::Body(_) => MOST_ITEMS,
            EachWork::Runs(_) => MOST_RUNS,
        }
    }
}

/// The one run of `core.flow.sub-workflow-invoke`.
pub(crate) fn one_run() -> DispatchPlan {
    DispatchPlan::side_by_side(NonZeroU32::MIN, OnWorkerFailure::FailFast)
}

fn body_of(node: &NodeId, written: Vec<WrittenStep>) -> Result<Vec<BodyStep>, PlanError> {
    let refuse = |place: &str, message: String| PlanError {
        path: format!("nodes.{node}.config.body{place}"),
        message,
    };
    if written.is_empty() || written.len() > MOST_STEPS {
        return Err(refuse("", format!("must have 1 to {MOST_STEPS} steps")));
    }
    let mut steps: Vec<BodyStep> = Vec::new();
    for (index, step) in written.into_iter().enumerate() {
        let place = format!("[{index}]");
        let pure = PureNode::find(step.type_id.as_str()).ok_or_else(|| {
            let message = format!(
                "{} is not computed from its inputs alone, as the steps of a body are; run a workflow for each item",
                step.type_id
            );
            refuse(&format!("{place}.typeId"), message)
        })?;
        if let Some((field, message)) = unfit_config_of(&step.type_id, &step.config) {
            return Err(refuse(&format!("{place}.config{field}"), message));
        }
        let id = step.id.unwrap_or_else(|| format!("step{}", index + 1));
        if steps.iter().any(|known| known.id == id) {
            return Err(refuse(&format!("{place}.id"), format!("{id} is defined twice")));
        }
        let mut inputs = Vec::new();
        for (port, value) in step.inputs {
            let value =
                body_port(value).map_err(|why| refuse(&format!("{place}.inputs.{port}"), why))?;
            inputs.push((port, value));
        }
        steps.push(BodyStep { id, pure, config: step.config, inputs });
    }
    Ok(steps)
}

fn body_port(value: PortValue) -> Result<BodyPort, String> {
    let PortValue::Expression { expression } = value else { return Ok(BodyPort::Shared(value)) };
    check_expression(&expression)?;
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let names: Vec<&str> = expression.split('.').collect();
    let is_of_the_item = matches!(names.first(), Some(&("item" | "index" | "total" | "steps")));
    Ok(match is_of_the_item && names.iter().all(|name| is_name(name)) {
        true => BodyPort::Path(names.into_iter().map(str::to_owned).collect()),
        false => BodyPort::Expression(expression),
    })
}
