//! The workflow definition: a closed object that authors write and hosts keep verbatim.

mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ChannelName, NodeId, Object, ShapeError, TypeId, WorkflowId};

use check::is_slug;

/// A definition that cannot be accepted, with the place that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct DefinitionError(#[from] pub ShapeError);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowDefinition {
    pub id: WorkflowId,
    pub name: String,
    pub version: String,
    pub nodes: Vec<WorkflowNode>,
    pub edges: Vec<WorkflowEdge>,
    pub triggers: Vec<WorkflowTrigger>,
    pub variables: Vec<WorkflowVariable>,
    pub metadata: WorkflowMetadata,
    pub settings: WorkflowSettings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkflowStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<NodeGroup>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<BTreeMap<ChannelName, ChannelDeclaration>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable_schema: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<WorkflowDefaults>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts_inherited_artifacts: Option<Vec<Object>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkflowStatus {
    Active,
    Inactive,
    Draft,
    Archived,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowNode {
    pub id: NodeId,
    pub type_id: TypeId,
    pub name: String,
    pub position: Position,
    pub config: Object,
    pub inputs: BTreeMap<String, PortValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_role: Option<OutputRole>,
    #[serde(default)]
    pub disabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope_contract: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_sensitivity: Option<BTreeMap<String, bool>>,
}

/// Where an editor draws the node. The only open object of the graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Position {
    pub x: f64,
    pub y: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputRole {
    Primary,
    Secondary,
}

/// A pin of an agent onto a node. Which agents exist is not this crate's business.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_manifest_id: Option<String>,
}

/// What feeds an input port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum PortValue {
    /// The protocol's name is `static`; `literal` is an alias that reference hosts accept.
    #[serde(alias = "literal")]
    Static {
        value: Value,
    },
    Expression {
        expression: String,
    },
    Connection {
        node_id: NodeId,
        output_key: String,
        #[serde(default)]
        optional: bool,
    },
    Variable {
        variable_name: String,
        #[serde(default)]
        optional: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowEdge {
    pub id: String,
    pub source_node_id: NodeId,
    pub target_node_id: NodeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<EdgeCondition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default)]
    pub trigger_rule: TriggerRule,
}

/// When the target of an edge may run, judged over all its upstreams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerRule {
    #[default]
    AllSuccess,
    AnySuccess,
    AllComplete,
    NoneFailed,
    AnyFailed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeCondition {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ConditionType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConditionType {
    Expression,
    Equals,
    NotEquals,
    Contains,
    Regex,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowTrigger {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: TriggerType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Object>,
    #[serde(default = "yes")]
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerType {
    Manual,
    Schedule,
    Webhook,
    Event,
    Artifact,
    Canvas,
    Envelope,
    Command,
    ChatMessage,
    ChannelWrite,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowVariable {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: VariableType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    #[serde(default)]
    pub sensitive: bool,
    /// RFC 0136: advice for editors. A value that does not match never fails a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableType {
    String,
    Number,
    Boolean,
    Object,
    Array,
}

impl VariableType {
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    pub id: String,
    pub name: String,
    pub node_ids: Vec<NodeId>,
    pub position: Position,
    pub size: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    #[serde(default)]
    pub collapsed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelDeclaration {
    pub reducer: Reducer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<ChannelAccess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatible_with: Option<Vec<u32>>,
    #[serde(default)]
    pub sensitive: bool,
}

/// How the writes of a channel fold into its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reducer {
    Replace,
    Append,
    Merge,
    Counter,
    Votes,
    Feedback,
    Message,
    /// `vendor.<org>.<name>`; one that this host does not know folds like `replace`.
    Vendor(String),
}

impl From<String> for Reducer {
    fn from(name: String) -> Self {
        match name.as_str() {
            "replace" => Self::Replace,
            "append" => Self::Append,
            "merge" => Self::Merge,
            "counter" => Self::Counter,
            "votes" => Self::Votes,
            "feedback" => Self::Feedback,
            "message" => Self::Message,
            _ => Self::Vendor(name),
        }
    }
}

impl From<Reducer> for String {
    fn from(reducer: Reducer) -> Self {
        match reducer {
            Reducer::Replace => "replace".into(),
            Reducer::Append => "append".into(),
            Reducer::Merge => "merge".into(),
            Reducer::Counter => "counter".into(),
            Reducer::Votes => "votes".into(),
            Reducer::Feedback => "feedback".into(),
            Reducer::Message => "message".into(),
            Reducer::Vendor(name) => name,
        }
    }
}

impl Reducer {
    /// The protocol's names, or a vendor's own of the form `vendor.<org>.<name>`.
    pub fn is_well_named(&self) -> bool {
        let Self::Vendor(name) = self else { return true };
        let parts: Vec<&str> = name.split('.').collect();
        matches!(parts.as_slice(), ["vendor", org, own] if is_slug(org) && is_slug(own))
    }

    /// Whether entries carry the time of their write, so that old ones can be dropped.
    pub fn keeps_entries(&self) -> bool {
        matches!(self, Self::Append | Self::Votes | Self::Feedback)
    }
}

/// Who may read and write a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum ChannelAccess {
    Public,
    Private,
    Lists { readers: Option<Vec<String>>, writers: Option<Vec<String>> },
}

impl TryFrom<Value> for ChannelAccess {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Lists {
            readers: Option<Vec<String>>,
            writers: Option<Vec<String>>,
        }
        match value.as_str() {
            Some("public") => return Ok(Self::Public),
            Some("private") => return Ok(Self::Private),
            Some(other) => {
                return Err(format!("unknown access {other:?}, expected public, private or lists"));
            }
            None => {}
        }
        let Lists { readers, writers } =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        Ok(Self::Lists { readers, writers })
    }
}

impl From<ChannelAccess> for Value {
    fn from(access: ChannelAccess) -> Self {
        match access {
            ChannelAccess::Public => "public".into(),
            ChannelAccess::Private => "private".into(),
            ChannelAccess::Lists { readers, writers } => {
                let mut lists = Object::new();
                for (side, list) in [("readers", readers), ("writers", writers)] {
                    if let Some(list) = list {
                        lists.insert(side.into(), list.into());
                    }
                }
                lists.into()
            }
        }
    }
}

/// Open: authors keep what they like here. Only what the host reads is typed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compliance_class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compliance_config: Option<Object>,
    /// The agent whose handoff the run's inputs must satisfy before anything else happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_agent_id: Option<String>,
    /// The memory reference under which each completed run leaves a summary; none is left without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_summary: Option<String>,
}

/// Open, like the metadata.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSettings {
    /// Milliseconds; zero is unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_loopback_iterations: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkflowDefaults {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_refs: Option<Object>,
}

fn yes() -> bool {
    true
}
