//! The discovery document's part about sources of runs: triggers, schedules, heartbeats.

use serde::{Deserialize, Serialize};

use crate::{RetryPolicy, SubscriptionState, TriggerSource};

/// RFC 0083 with 0099, 0230 and 0232.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerBridgeCapability {
    pub supported: bool,
    pub subscription_states: Vec<SubscriptionState>,
    pub dedup: bool,
    pub retry_policy: RetryPolicy,
    pub sources: Vec<TriggerSource>,
    pub ingestion: IngestionCapability,
    pub dead_letter: TriggerDeadLetterCapability,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IngestionCapability {
    pub external_sources: Vec<TriggerSource>,
    pub max_body_bytes: u64,
    pub verification: Vec<String>,
    pub registration_endpoint: bool,
    pub inbound_signing: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerDeadLetterCapability {
    pub retention_days: u32,
    pub max_page_size: u32,
}

/// RFC 0053: runs that are given up after their retries. Closed in the protocol's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeadLetterCapability {
    pub supported: bool,
    /// How long such a run is kept; absent where it is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
}

/// RFC 0052. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulingCapability {
    pub supported: bool,
    pub cron: bool,
    /// A single run at a given time.
    pub delayed: bool,
    pub calendar: bool,
    /// An ISO 8601 duration.
    pub max_future_horizon: String,
}

/// RFC 0060: what is looked at again and again. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatCapability {
    pub supported: bool,
    pub min_interval_sec: u64,
    pub max_runtime_ms: u64,
}
