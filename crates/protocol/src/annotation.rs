//! Annotations of people and agents about a run: a resource beside it, never part of its log.

use serde::{Deserialize, Serialize};

use crate::{EventId, NodeId, Principal, RunId, Timestamp};

/// One signal about a run. Stored as it stands on the wire: an old reader refuses a kind of signal that it does
/// not know, a new reader finds every old field, and none is rewritten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    pub annotation_id: String,
    pub target: AnnotationTarget,
    pub signal: Signal,
    pub actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationTarget {
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// The judgement itself. Each kind needs the field of its name, but for a flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    pub kind: SignalKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignalKind {
    Rating,
    Correction,
    Label,
    Flag,
}

/// The author, as far as the credential identifies one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    pub principal_ref: Principal,
}

/// `POST /v1/runs/{runId}/annotations`. Run, actor, id and time are the host's to say.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateAnnotation {
    #[serde(default)]
    pub target: Option<Anchor>,
    pub signal: Signal,
    #[serde(default)]
    pub note: Option<String>,
}

/// A place within the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Anchor {
    #[serde(default)]
    pub event_id: Option<EventId>,
    #[serde(default)]
    pub node_id: Option<NodeId>,
}
