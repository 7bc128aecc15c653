//! Trigger subscriptions, and what comes in over them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Object, Timestamp, TriggerSource};

/// `TriggerSubscription`. Closed in the protocol's schema: what else a host knows of one stays with the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSubscription {
    pub subscription_id: String,
    pub source: TriggerSource,
    pub state: SubscriptionState,
    pub dedup_enabled: bool,
    pub retry_policy: RetryPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_fingerprint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubscriptionState {
    Active,
    Paused,
    /// Something that it needs is gone; a person mends it and resumes.
    Failed,
    /// A delivery was given up. There is no way back.
    DeadLettered,
}

impl SubscriptionState {
    pub const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Failed, Self::DeadLettered];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::DeadLettered => "dead-lettered",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// How often a delivery is tried, and how far apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryPolicy {
    pub max_attempts: u32,
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 5, backoff: Backoff::Exponential }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    None,
    Fixed,
    Exponential,
}

/// `TriggerEvent`: what a run sees of the thing that started it. Never part of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerEvent {
    pub source: TriggerSource,
    pub subscription_id: String,
    /// The id of the event about the delivery.
    pub delivery_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    pub received_at: Timestamp,
    pub verified: bool,
    /// Always `untrusted`: the sender is outside the tenant.
    pub content_trust: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<EmailContent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<FormContent>,
    /// Ours: what a queue delivers. The protocol has no seat for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Value>,
    /// Ours: what the sender of a webhook calls what has happened. Only presets of ours have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookContent {
    pub method: String,
    pub headers: Object,
    pub body: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EmailContent {
    pub from: String,
    pub to: Vec<String>,
    pub subject: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    pub attachments: Vec<AttachmentRef>,
    /// Ours, and only of a message that came as it was sent: its name, without the angle brackets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The name of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// The names of the messages of its thread, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FormContent {
    pub fields: Object,
}

/// Something that came along, by the host's own handle; never an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentRef {
    #[serde(rename = "ref")]
    pub handle: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub bytes: u64,
}
