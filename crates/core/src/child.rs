//! What a node that starts a run of its own is configured to do.

use std::collections::BTreeMap;

use serde::Deserialize;

use callboard_protocol::{ChannelName, WorkflowDefinition, WorkflowId, WorkflowNode};

use crate::plan::PlanError;

/// The compiled configuration of `core.subWorkflow`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChildCall {
    pub(crate) workflow_id: WorkflowId,
    #[serde(default = "yes")]
    wait_for_completion: bool,
    #[serde(default)]
    pub(crate) on_child_failure: OnChildFailure,
    /// Child variable → parent variable.
    #[serde(default)]
    pub(crate) input_mapping: BTreeMap<String, String>,
    /// Parent variable → child variable.
    #[serde(default)]
    pub(crate) output_mapping: BTreeMap<String, String>,
    #[serde(default = "yes")]
    pub(crate) propagate_cancellation: bool,
    #[serde(default)]
    pub(crate) memory_scope_isolation: MemoryScope,
    #[serde(default)]
    pub(crate) output_attestation: Option<OutputAttestation>,
}

/// How far a child and what it leaves are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutputAttestation {
    #[serde(default)]
    pub(crate) checksum: bool,
    #[serde(default, rename = "algorithm")]
    _algorithm: Algorithm,
    #[serde(default)]
    pub(crate) require_approval: bool,
    /// The only scopes of its owner that the child may use.
    pub(crate) principal_scope: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Algorithm {
    #[default]
    Sha256,
}

/// Whose memory a child reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryScope {
    /// Its parent's, as the parent sees it when the child begins.
    #[default]
    Inherit,
    /// One of its own, which begins empty.
    Isolated,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnChildFailure {
    #[default]
    FailParent,
    Absorb,
}

impl ChildCall {
    pub(crate) fn of(
        node: &WorkflowNode,
        definition: &WorkflowDefinition,
    ) -> Result<Self, PlanError> {
        let refuse = |field: &str, message: String| PlanError {
            path: format!("nodes.{}.config{field}", node.id),
            message,
        };
        let call: Self = serde_json::from_value(node.config.clone().into())
            .map_err(|error| refuse("", error.to_string()))?;
        if call.workflow_id.as_str().is_empty() {
            return Err(refuse(".workflowId", "must name a workflow".into()));
        }
        if !call.wait_for_completion {
            let message = "false is not supported: a node ends when its child does";
            return Err(refuse(".waitForCompletion", message.into()));
        }
        let channels = definition.channels.as_ref();
        let is_channel = |name: &&String| {
            let name = ChannelName::from(name.as_str());
            channels.is_some_and(|channels| channels.contains_key(&name))
        };
        match call.output_mapping.keys().find(is_channel) {
            Some(name) => {
                let message = format!("{name} is a channel; a child cannot write to it");
                Err(refuse(".outputMapping", message))
            }
            None => Ok(call),
        }
    }
}

fn yes() -> bool {
    true
}
