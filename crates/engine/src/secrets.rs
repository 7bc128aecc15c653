//! Secrets of tenants: the port, with what a call may learn through it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use callboard_core::{Provenance, Redactor, RetryClass, SecretText, decide_egress, redact_text};
use callboard_protocol::{EgressDecided, EgressDecision, Failure, SecretName, Timestamp};

use crate::activity::{Call, PastTask};
use crate::once::Stumble;
use crate::registry::Put;
use crate::store::{Scope, StoreError};

/// Values that are kept here under names, each in one place. They go to calls that need them and never back to who
/// stored them.
#[async_trait]
pub trait Secrets: fmt::Debug + Send + Sync {
    /// What the host itself holds, such as its keys for providers. No run may tell any of it, whoever repeats it to the
    /// run.
    fn of_host(&self) -> Redactor {
        Redactor::default()
    }
    /// The value and where it may go. Only [`Call`] hands it on, so that whatever a run has seen is known to its
    /// redactor.
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError>;
    /// Answers whether the name was new.
    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError>;
    /// In the order of their names, without their values.
    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError>;
    /// Answers whether there was one.
    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError>;
}

/// What the host itself holds is known to every run, beside what the run's own tenant keeps.
#[derive(Debug)]
pub struct HostSecrets {
    tenants: Arc<dyn Secrets>,
    known: Redactor,
}

impl HostSecrets {
    pub fn over(tenants: Arc<dyn Secrets>, known: Redactor) -> Self {
        Self { tenants, known }
    }
}

#[async_trait]
impl Secrets for HostSecrets {
    fn of_host(&self) -> Redactor {
        self.known.clone()
    }

    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        self.tenants.resolve_secret(place, name).await
    }

    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        self.tenants.put_secret(place, name, secret, at).await
    }

    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        self.tenants.secrets(place).await
    }

    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError> {
        self.tenants.remove_secret(place, name).await
    }
}

/// A value, with where it may go.
#[derive(Debug, Clone)]
pub struct HeldSecret {
    pub value: SecretText,
    /// None: it was stored for the host's own use, such as asking a model, and no tool sends it anywhere.
    pub provenance: Option<Provenance>,
}

impl From<SecretText> for HeldSecret {
    fn from(value: SecretText) -> Self {
        Self { value, provenance: None }
    }
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecret {
    pub name: SecretName,
    pub provenance: Option<Provenance>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Why a call got no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Somebody must store it, or name another.
    #[error("there is no secret {}", redact_text(.0.as_str()))]
    NotFound(SecretName),
    /// It may be read later.
    #[error("the secret {} cannot be read now", redact_text(.0.as_str()))]
    Unavailable(SecretName),
    /// It goes to its audiences alone, and this is none.
    #[error("the secret {} is bound to its audiences; store one without for this", redact_text(.0.as_str()))]
    Bound(SecretName),
}

impl From<SecretError> for Stumble {
    fn from(error: SecretError) -> Self {
        let (code, class) = match error {
            SecretError::NotFound(_) => ("credential_not_found", RetryClass::Final),
            SecretError::Unavailable(_) => ("credential_unavailable", RetryClass::Retryable),
            SecretError::Bound(_) => ("credential_forbidden", RetryClass::Final),
        };
        Self { failure: Failure::new(code, error.to_string()), class }
    }
}

impl Call {
    /// The value of a secret that the run can see, for the host's own use. From here on nothing that this run tells can
    /// hold it.
    pub async fn secret(&self, name: &SecretName) -> Result<SecretText, SecretError> {
        match self.held(name).await? {
            HeldSecret { value, provenance: None } => Ok(value),
            HeldSecret { provenance: Some(_), .. } => Err(SecretError::Bound(name.clone())),
        }
    }

    /// The value of a secret for one destination, if it may go there, and what was decided. Nobody else hands a
    /// credential to a tool.
    pub async fn credential(
        &self,
        name: &SecretName,
        destination: &str,
    ) -> (EgressDecided, Option<SecretText>) {
        let held = self.held(name).await.ok();
        let provenance = held.as_ref().and_then(|held| held.provenance.as_ref());
        let decided = decide_egress(name, provenance, destination, self.now());
        let is_allowed = decided.decision == EgressDecision::Allowed;
        (decided, held.filter(|_| is_allowed).map(|held| held.value))
    }

    async fn held(&self, name: &SecretName) -> Result<HeldSecret, SecretError> {
        match seen_secret(&*self.secrets, &self.scope(), name).await {
            Ok(Some(held)) => {
                self.resolved.known().learn(name.as_str(), &held.value);
                Ok(held)
            }
            Ok(None) => Err(SecretError::NotFound(name.clone())),
            Err(error) => {
                tracing::warn!(%error, run = %self.run, secret = %name, "secret not read");
                Err(SecretError::Unavailable(name.clone()))
            }
        }
    }

    /// Takes what can be told of a text that is still being written: what may be the beginning of a secret stays.
    pub fn take_told(&self, text: &mut String) -> String {
        self.resolved.known().take_told(text)
    }

    /// Cleans a copy that goes elsewhere than into the log, which is cleaned anyway: a digest, a memory, a prompt as
    /// it is shown.
    pub fn redact(&self, value: &mut Value) {
        self.resolved.known().redact(value);
    }
}

impl PastTask<'_> {
    /// Whether there is such a secret today. Nobody sees its value.
    pub async fn has_secret(&self, name: &SecretName) -> bool {
        let found = seen_secret(&**self.secrets, &Scope::of(self.birth), name).await;
        !matches!(found, Ok(None))
    }
}

/// The secret that a name means in a scope: a workspace's own stands before the whole tenant's.
async fn seen_secret(
    secrets: &dyn Secrets,
    scope: &Scope,
    name: &SecretName,
) -> Result<Option<HeldSecret>, StoreError> {
    for place in scope.shelves() {
        if let Some(value) = secrets.resolve_secret(&place, name).await? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// What the calls of one run have resolved, for as long as somebody drives it. Whoever drives it next resolves again
/// before it can tell anything.
#[derive(Debug, Clone)]
pub(crate) struct Resolved(Arc<Mutex<Redactor>>);

impl Resolved {
    /// Begins with what no run of this host may tell.
    pub(crate) fn over(host: Redactor) -> Self {
        Self(Arc::new(Mutex::new(host)))
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Redactor> {
        // Learning replaces nothing, so a panic under the lock leaves nothing unknown that was known.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
