//! Events about a model's answer on its way to a result, and notes beside it. They contain nothing of the answer.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Object};

/// An answer ended because its budget did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeTruncated {
    pub node_id: NodeId,
    pub provider: String,
    pub model: String,
    pub stop_reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_payload_available: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_token_count: Option<u64>,
}

/// A model is asked once more for one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetryAttempted {
    pub node_id: NodeId,
    /// The first answer is attempt 1, so this begins with 2.
    pub attempt: u32,
    pub reason: String,
}

/// A model was asked as often as it may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRetryExhausted {
    pub node_id: NodeId,
    pub total_attempts: u32,
    pub final_reason: String,
}

/// A model declined to answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRefusal {
    pub node_id: NodeId,
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_category: Option<String>,
}

/// An answer was found in a text that was not only the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeRecoveryApplied {
    pub node_id: NodeId,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_offset: Option<u64>,
}

/// A model that only chats is asked to put what it said into form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeNlToFormatEngaged {
    pub node_id: NodeId,
    pub original_envelope_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_calls: Option<u32>,
}

/// Another model is asked, because the one at hand lacks something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCapabilitySubstituted {
    pub node_id: NodeId,
    pub original_provider: String,
    pub original_model: String,
    pub fallback_provider: String,
    pub fallback_model: String,
    pub missing_capabilities: Vec<String>,
}

/// No model is asked, because the one at hand lacks something that no other has to offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCapabilityInsufficient {
    pub node_id: NodeId,
    pub provider: String,
    pub model: String,
    pub missing_capabilities: Vec<String>,
    #[serde(default)]
    pub fallback_attempted: bool,
}

/// Ours: a model that kept failing was replaced by the next one of its class, for the rest of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFallback {
    pub node_id: NodeId,
    pub model_class: String,
    pub original_provider: String,
    pub original_model: String,
    pub fallback_provider: String,
    pub fallback_model: String,
    /// The code of the trouble.
    pub reason: String,
}

/// A note for readers of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogAppended {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    pub level: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub fields: Object,
}
