//! The body of every answer that is not a success.

use serde::{Deserialize, Serialize};

use crate::Object;

/// Closed: `error`, `message`, `details` and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorEnvelope {
    pub error: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Object>,
}
