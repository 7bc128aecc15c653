//! Errors, distinguished by what the caller does next.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

use crate::kind::AgentKind;

/// Every message is safe to show: it holds no output of the agent, no path, no model id and no
/// environment value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Nobody registered a backend for this kind.
    #[error("no backend is registered for {agent_kind}")]
    UnknownBackend { agent_kind: AgentKind },
    /// The backend does not advertise the operation, or the extension key that was asked for.
    #[error("{agent_kind} does not offer {capability}")]
    UnsupportedCapability { agent_kind: AgentKind, capability: String },
    #[error("{message}")]
    InvalidAgentKind { message: String },
    /// The request contradicts the contract or itself; nothing was started.
    #[error("{message}")]
    InvalidRequest { message: String },
    /// Whatever went wrong after validation.
    #[error("{message}")]
    Backend { message: String, class: FailureClass, exit: Option<Exit> },
}

impl AgentError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidRequest { message: message.into() }
    }

    pub(crate) fn backend(class: FailureClass, message: impl Into<String>) -> Self {
        Self::Backend { message: message.into(), class, exit: None }
    }

    /// The class of a [`AgentError::Backend`].
    #[must_use]
    pub fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Backend { class, .. } => Some(*class),
            Self::UnknownBackend { .. }
            | Self::UnsupportedCapability { .. }
            | Self::InvalidAgentKind { .. }
            | Self::InvalidRequest { .. } => None,
        }
    }

    /// Whether the same request may succeed later without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.class().is_some_and(FailureClass::is_retryable)
    }
}

/// Why a run failed, for machines. The message beside it is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureClass {
    /// The program could not be started.
    Spawn,
    /// The provider does not know the caller.
    Auth,
    RateLimit,
    /// The provider or the agent does not know the model.
    ModelRejected,
    #[serde(rename = "upstream_5xx")]
    Upstream5xx,
    /// The agent or the provider refused what was asked.
    InvalidRequest,
    /// The model declined to answer. Asking again would only press it.
    Refused,
    /// The agent may not do what it was asked to.
    Permission,
    /// The session to resume or fork is not there.
    SessionMissing,
    /// The agent stopped at its limit of turns.
    TurnLimit,
    Timeout,
    Cancelled,
    /// The agent did not speak the way it should, or stopped without saying how it ended.
    Protocol,
    /// The agent died.
    Crashed,
    /// The agent would not die: it may still be running.
    Unterminated,
}

impl FailureClass {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::ModelRejected => "model_rejected",
            Self::Upstream5xx => "upstream_5xx",
            Self::InvalidRequest => "invalid_request",
            Self::Refused => "refused",
            Self::Permission => "permission",
            Self::SessionMissing => "session_missing",
            Self::TurnLimit => "turn_limit",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Protocol => "protocol",
            Self::Crashed => "crashed",
            Self::Unterminated => "unterminated",
        }
    }

    /// Only what the provider itself calls temporary: after a crash it is unknown what was done.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Upstream5xx)
    }

    /// What an HTTP status of the model's provider means for the caller.
    pub(crate) fn from_http(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            404 => Self::ModelRejected,
            429 => Self::RateLimit,
            500.. => Self::Upstream5xx,
            _ => Self::InvalidRequest,
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a process ended, in a form that can be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }
}

#[cfg(test)]
mod tests {
    use super::FailureClass;

    #[test]
    fn a_class_is_spelt_the_same_everywhere() {
        for class in [
            FailureClass::Spawn,
            FailureClass::Upstream5xx,
            FailureClass::RateLimit,
            FailureClass::SessionMissing,
            FailureClass::Unterminated,
        ] {
            assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        }
    }

    #[test]
    fn only_what_the_provider_calls_temporary_is_retryable() {
        assert!(FailureClass::from_http(429).is_retryable());
        assert!(FailureClass::from_http(529).is_retryable());
        for status in [400, 401, 403, 404, 422] {
            assert!(!FailureClass::from_http(status).is_retryable(), "{status}");
        }
    }
}
