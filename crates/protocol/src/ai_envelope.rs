//! Envelopes that a model hands over beside its answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::closed::ensure;
use crate::{NodeId, Object, ShapeError, Timestamp};

/// An envelope. Closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AiEnvelope {
    #[serde(rename = "type")]
    pub kind: String,
    /// Absent is version 0.
    #[serde(default)]
    pub schema_version: u64,
    pub envelope_id: String,
    /// Two envelopes of one run with the same are one.
    pub correlation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    pub payload: Value,
    pub meta: EnvelopeMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialEnvelope>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvelopeMeta {
    pub source: EnvelopeSource,
    pub ts: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_trust: Option<ContentTrust>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<Object>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvelopeSource {
    AiGeneration,
    User,
    System,
}

/// Whether what is said may be acted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentTrust {
    #[default]
    Trusted,
    Untrusted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartialEnvelope {
    pub is_partial: bool,
    pub index: u64,
    /// −1 where it is unknown.
    pub total: i64,
}

impl AiEnvelope {
    /// Reads an untrusted envelope. An error repeats nothing of its content.
    pub fn read(value: Value) -> Result<Self, ShapeError> {
        let envelope: Self = crate::parse_value(value).map_err(|error| ShapeError {
            message: "does not have the shape of an envelope".to_owned(),
            ..error
        })?;
        for (path, text, most) in [
            ("type", &envelope.kind, 256),
            ("envelopeId", &envelope.envelope_id, 128),
            ("correlationId", &envelope.correlation_id, 128),
        ] {
            ensure((1..=most).contains(&text.chars().count()), path, || {
                format!("must have 1 to {most} characters")
            })?;
        }
        let label = envelope.meta.label.as_ref().map_or(0, |label| label.chars().count());
        ensure(label <= 256, "meta.label", || "must have at most 256 characters".into())?;
        let total = envelope.partial.map_or(0, |partial| partial.total);
        ensure(total >= -1, "partial.total", || "must be at least -1".into())?;
        Ok(envelope)
    }
}
