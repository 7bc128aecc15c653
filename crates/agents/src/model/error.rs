//! Why a turn failed, in texts that repeat nothing of prompt or answer.

use std::time::Duration;

use super::ProviderReason;

/// A turn without an answer. Contains no body, prompt, key or URL, so it may be shown to anyone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {fault}{}", .status.map_or_else(String::new, |status| format!(" ({status})")))]
pub struct ModelError {
    pub provider: String,
    pub fault: Fault,
    /// The status of the provider's answer, if there was one.
    pub status: Option<u16>,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
    /// What the provider says itself; not shown with the error.
    pub reason: Option<ProviderReason>,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("no such provider is configured")]
    UnknownProvider,
    #[error("no key is configured")]
    NoKey,
    #[error("the key was not accepted")]
    Forbidden,
    #[error("the model or the address is unknown there")]
    NotFound,
    #[error("the request was not accepted")]
    Rejected,
    #[error("too many requests")]
    Limited,
    #[error("the provider is in trouble")]
    Trouble,
    #[error("no connection")]
    Unreachable,
    #[error("no {0} in time")]
    TimedOut(Phase),
    #[error("the answer broke off")]
    Broken,
    #[error("the answer cannot be read")]
    Malformed,
    #[error("the answer is larger than this host takes")]
    TooLarge,
}

/// What a call was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    FirstByte,
    NextByte,
    End,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FirstByte => "first byte",
            Self::NextByte => "next byte",
            Self::End => "end",
        })
    }
}

/// Whether asking again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    Retry { after: Option<Duration> },
    GiveUp,
}

impl ModelError {
    pub fn new(provider: &str, fault: Fault) -> Self {
        Self { provider: provider.to_owned(), fault, status: None, retry_after: None, reason: None }
    }

    /// An answer with a status that is no success.
    pub fn of_status(provider: &str, status: u16, retry_after: Option<Duration>) -> Self {
        let fault = match status {
            401 | 403 => Fault::Forbidden,
            404 => Fault::NotFound,
            429 => Fault::Limited,
            408 | 425 | 500.. => Fault::Trouble,
            _ => Fault::Rejected,
        };
        let (provider, status) = (provider.to_owned(), Some(status));
        Self { provider, fault, status, retry_after, reason: None }
    }

    /// With the provider's own words, if it had any.
    #[must_use]
    pub fn because(self, reason: Option<ProviderReason>) -> Self {
        Self { reason, ..self }
    }

    pub fn advice(&self) -> RetryAdvice {
        match self.fault {
            Fault::UnknownProvider
            | Fault::NoKey
            | Fault::Forbidden
            | Fault::NotFound
            | Fault::Rejected
            // The same question has the same answer, and it would be paid for again.
            | Fault::TooLarge => RetryAdvice::GiveUp,
            Fault::Limited
            | Fault::Trouble
            | Fault::Unreachable
            | Fault::TimedOut(_)
            | Fault::Broken
            | Fault::Malformed => RetryAdvice::Retry { after: self.retry_after },
        }
    }

    /// The protocol's word for it.
    pub fn code(&self) -> &'static str {
        match self.fault {
            Fault::UnknownProvider | Fault::NotFound => "no_model_available",
            Fault::NoKey => "credential_required",
            Fault::Forbidden => "credential_forbidden",
            Fault::Rejected => "validation_error",
            Fault::Limited => "rate_limited",
            Fault::Trouble
            | Fault::Unreachable
            | Fault::TimedOut(_)
            | Fault::Broken
            | Fault::Malformed
            | Fault::TooLarge => "service_unavailable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let retry = RetryAdvice::Retry { after: None };
        for (status, advice, code) in [
            (400, RetryAdvice::GiveUp, "validation_error"),
            (401, RetryAdvice::GiveUp, "credential_forbidden"),
            (403, RetryAdvice::GiveUp, "credential_forbidden"),
            (404, RetryAdvice::GiveUp, "no_model_available"),
            (302, RetryAdvice::GiveUp, "validation_error"),
            (429, retry, "rate_limited"),
            (500, retry, "service_unavailable"),
            (503, retry, "service_unavailable"),
            (529, retry, "service_unavailable"),
        ] {
            let error = ModelError::of_status("p", status, None);
            assert_eq!((error.advice(), error.code()), (advice, code), "{status}");
        }
        let patient = ModelError::of_status("p", 429, Some(Duration::from_secs(7)));
        assert_eq!(patient.advice(), RetryAdvice::Retry { after: Some(Duration::from_secs(7)) });
        assert_eq!(ModelError::new("p", Fault::Broken).advice(), retry);
    }

    #[test]
    fn a_status_is_said_where_there_was_one() {
        let error = ModelError::of_status("acme", 529, None);
        assert_eq!(error.to_string(), "acme: the provider is in trouble (529)");
        let error = ModelError::new("acme", Fault::Unreachable);
        assert_eq!(error.to_string(), "acme: no connection");
    }
}
