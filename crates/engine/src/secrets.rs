//! Secrets of tenants: the port, with what a call may learn through it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use callboard_core::{Redactor, RetryClass, SecretText};
use callboard_protocol::{Failure, SecretName, Timestamp};

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
    /// The value. Only [`Call::secret`] hands it on, so that whatever a run has seen is known to its redactor.
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<SecretText>, StoreError>;
    /// Answers whether the name was new.
    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        value: SecretText,
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
    ) -> Result<Option<SecretText>, StoreError> {
        self.tenants.resolve_secret(place, name).await
    }

    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        value: SecretText,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        self.tenants.put_secret(place, name, value, at).await
    }

    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        self.tenants.secrets(place).await
    }

    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError> {
        self.tenants.remove_secret(place, name).await
    }
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecret {
    pub name: SecretName,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Why a call got no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Somebody must store it, or name another.
    #[error("there is no secret {0}")]
    NotFound(SecretName),
    /// It may be read later.
    #[error("the secret {0} cannot be read now")]
    Unavailable(SecretName),
}

impl From<SecretError> for Stumble {
    fn from(error: SecretError) -> Self {
        let (code, class) = match error {
            SecretError::NotFound(_) => ("credential_not_found", RetryClass::Final),
            SecretError::Unavailable(_) => ("credential_unavailable", RetryClass::Retryable),
        };
        Self { failure: Failure::new(code, error.to_string()), class }
    }
}

impl Call {
    /// The value of a secret that the run can see. From here on nothing that this run tells can hold it.
    pub async fn secret(&self, name: &SecretName) -> Result<SecretText, SecretError> {
        match seen_secret(&*self.secrets, &self.scope(), name).await {
            Ok(Some(value)) => {
                self.resolved.known().learn(name.as_str(), &value);
                Ok(value)
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
) -> Result<Option<SecretText>, StoreError> {
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
