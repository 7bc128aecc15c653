//! Presets: how senders that everybody knows prove themselves, what they call a post, and which of its headers a run may
//! see.

use serde::{Deserialize, Serialize};

/// Whose way of signing a webhook subscription expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    #[default]
    StandardWebhooks,
    Github,
    Slack,
    Stripe,
    Token,
}

/// Who chooses the secret of a preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFrom {
    /// This host, always: the format is fixed.
    Host,
    /// The maker of the subscription, or else this host.
    Either,
    /// The sender has made one already; without it nothing can be checked.
    Sender,
}

impl Preset {
    pub const ALL: [Self; 5] =
        [Self::StandardWebhooks, Self::Github, Self::Slack, Self::Stripe, Self::Token];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "standard-webhooks",
            Self::Github => "github",
            Self::Slack => "slack",
            Self::Stripe => "stripe",
            Self::Token => "token",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == name)
    }

    /// What a sender proves itself with, in a sentence for people.
    pub fn proof(self) -> &'static str {
        match self {
            Self::StandardWebhooks => {
                "webhook-signature over id, time and body; at most five minutes old"
            }
            Self::Github => "X-Hub-Signature-256 over the body",
            Self::Slack => "X-Slack-Signature over time and body; at most five minutes old",
            Self::Stripe => "Stripe-Signature over time and body; at most five minutes old",
            Self::Token => {
                "a shared token in a header or in the address, compared in constant time"
            }
        }
    }

    /// Where the name comes from under which the same thing is taken once.
    pub fn known_by(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "webhook-id",
            Self::Github => "X-GitHub-Delivery",
            Self::Slack => "event_id of the body, or trigger_id of an action",
            Self::Stripe => "id of the body",
            Self::Token => "webhook-id or Idempotency-Key, if there is one",
        }
    }

    /// Where the run's `event` comes from; a preset without one has no such name.
    pub fn event_from(self) -> Option<&'static str> {
        match self {
            Self::StandardWebhooks => None,
            Self::Github => Some("X-GitHub-Event"),
            Self::Slack => Some("event.type of the body, or its type"),
            Self::Stripe => Some("type of the body"),
            Self::Token => Some("X-Gitlab-Event, X-Event-Key or X-Event-Type"),
        }
    }

    /// The headers that a run may see, in small letters. Whatever could be a credential is not among them.
    pub fn headers(self) -> &'static [&'static str] {
        match self {
            Self::StandardWebhooks => &[
                "content-type",
                "user-agent",
                "webhook-id",
                "webhook-timestamp",
                "x-github-event",
                "x-event-type",
            ],
            Self::Github => &[
                "content-type",
                "user-agent",
                "x-github-delivery",
                "x-github-event",
                "x-github-hook-id",
                "x-github-hook-installation-target-id",
                "x-github-hook-installation-target-type",
            ],
            Self::Slack => &[
                "content-type",
                "user-agent",
                "x-slack-request-timestamp",
                "x-slack-retry-num",
                "x-slack-retry-reason",
            ],
            Self::Stripe => &["content-type", "user-agent"],
            Self::Token => &[
                "content-type",
                "user-agent",
                "webhook-id",
                "idempotency-key",
                "x-event-key",
                "x-event-type",
                "x-gitlab-event",
            ],
        }
    }

    pub fn secret_from(self) -> SecretFrom {
        match self {
            Self::StandardWebhooks => SecretFrom::Host,
            Self::Github | Self::Token => SecretFrom::Either,
            Self::Slack | Self::Stripe => SecretFrom::Sender,
        }
    }
}

/// Where a shared token stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TokenPlace {
    /// The name of a header, in small letters. With `authorization`, the word `Bearer` may stand before the token.
    Header(String),
    /// The name of a parameter of the address.
    Query(String),
}

impl Default for TokenPlace {
    fn default() -> Self {
        Self::Header("x-webhook-token".to_owned())
    }
}

/// What a subscription asks of posts beyond what the protocol knows of.
///
/// An older host that reads one checks posts as Standard Webhooks has it and so refuses them; it takes what a filter
/// would leave out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terms {
    pub preset: Preset,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenPlace>,
    /// What must hold of a delivery that starts a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

impl Terms {
    pub(super) fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}
