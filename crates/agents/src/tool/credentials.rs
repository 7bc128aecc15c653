//! Hands a run's credentials to the tools that send them, and keeps the decision about each.

use std::sync::{Mutex, PoisonError};

use callboard_core::SecretText;
use callboard_engine::Call;
use callboard_protocol::{EgressDecided, EgressDecision, EgressReason, SecretName};

use super::ToolFault;

/// The credentials of the run that calls. A tool gets one for a destination, never to keep.
#[derive(Debug)]
pub struct Credentials<'a> {
    call: &'a Call,
    decided: Mutex<Vec<EgressDecided>>,
}

impl<'a> Credentials<'a> {
    pub fn of(call: &'a Call) -> Self {
        Self { call, decided: Mutex::default() }
    }

    /// A credential for one destination: a host, with its port where that is unusual.
    pub async fn release(
        &self,
        name: &SecretName,
        destination: &str,
    ) -> Result<SecretText, ToolFault> {
        let (decided, value) = self.call.credential(name, destination).await;
        let why = match decided.reason {
            EgressReason::Expired => "has expired",
            EgressReason::OutOfAudience => "may not be sent to this host",
            _ => "does not exist, or has no audiences",
        };
        self.note(decided);
        value.ok_or_else(|| ToolFault::Refused(format!("the credential {name} {why}")))
    }

    /// The guard did not let the request out that the last credential was for.
    pub fn blocked(&self) {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = decided.last_mut() {
            (last.decision, last.reason) = (EgressDecision::Denied, EgressReason::SsrfBlocked);
        }
    }

    /// A credential of the operator's goes where the operator said.
    pub fn note(&self, decided: EgressDecided) {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner).push(decided);
    }

    /// What was decided, in its order.
    pub fn into_decided(self) -> Vec<EgressDecided> {
        self.decided.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
