//! Events about deliveries over trigger subscriptions. Names, counts and outcomes; nothing of the content.

use serde::{Deserialize, Serialize};

use crate::{RunId, SubscriptionState, TriggerSource};

/// One attempt to make a run of something that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerDeliveryAttempted {
    pub subscription_id: String,
    /// Tells two deliveries of the same thing; says nothing of the thing.
    pub dedup_key: String,
    pub attempt: u32,
    pub outcome: DeliveryOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryOutcome {
    Delivered,
    Retrying,
    DeadLettered,
}

/// A subscription has moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerSubscriptionStateChanged {
    pub subscription_id: String,
    pub source: TriggerSource,
    pub from_state: SubscriptionState,
    pub to_state: SubscriptionState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<StateReason>,
}

/// Why a subscription moved; the protocol closes the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateReason {
    RetryExhausted,
    OperatorPaused,
    SignatureInvalid,
    Backpressure,
    SourceRemoved,
    ProvenanceUnevaluable,
}
