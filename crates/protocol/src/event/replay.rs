//! Events about where a replay differs from its source.

use serde::{Deserialize, Serialize};

use crate::{EventId, NodeId, RunId};

/// A replay's result differs from the one that its source recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged {
    pub source_run_id: RunId,
    pub at_sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_event_id: Option<EventId>,
    pub divergence_kind: DivergenceKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence_point: Option<String>,
}

/// In what a replay differs from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// The same event says something else.
    Output,
    /// The source's event does not happen.
    Missing,
    /// Something happens that the source does not have.
    Extra,
    /// Another event happens in its place.
    TypeMismatch,
}

/// In a replay, a model refuses that did not before, or no longer refuses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDivergedAtRefusal {
    pub source_run_id: RunId,
    pub at_sequence: u64,
    pub original_envelope_kind: EnvelopeKind,
    pub replay_envelope_kind: EnvelopeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_event_id: Option<EventId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// What a model's answer was, as far as replays must agree in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeKind {
    Valid,
    Refusal,
}

impl EnvelopeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Refusal => "refusal",
        }
    }

    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Valid => Self::Refusal,
            Self::Refusal => Self::Valid,
        }
    }
}
