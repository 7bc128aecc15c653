//! Secrets of tenants, with what a call may learn of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_core::{Provenance, Redactor, RetryClass, SecretText, decide_egress, redact_text};
use callboard_protocol::{EgressDecided, EgressDecision, Failure, SecretName, Timestamp};

use crate::activity::{Call, PastTask};
use crate::once::CallFailure;
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within, retry_moved};
use crate::registry::Put;
use crate::store::{Batch, Scope, Store, StoreError};

/// Values that are kept here under names, each in one place. They go to calls that need them and never back to who
/// stored them.
#[derive(Debug, Clone)]
pub struct Secrets {
    store: Arc<dyn Store>,
    /// What the host itself holds.
    of_host: Redactor,
    /// What all tenants find under names that they have not stored.
    shared: Vec<(SecretName, SecretText)>,
}

/// A secret as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    name: SecretName,
    value: String,
    /// Whatever is written here and is no [`Provenance`] admits nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provenance: Option<Value>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Body {
    /// What cannot be read admits no one, and never everyone.
    fn provenance(&self) -> Option<Provenance> {
        let nobody = Provenance { audiences: Vec::new(), expires_at: None };
        let written = self.provenance.clone()?;
        Some(serde_json::from_value(written).unwrap_or(nobody))
    }
}

impl Secrets {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, of_host: Redactor::default(), shared: Vec::new() }
    }

    /// The same secrets, read from the same database by another way.
    #[must_use]
    pub(crate) fn through(&self, store: Arc<dyn Store>) -> Self {
        Self { store, ..self.clone() }
    }

    /// Says what the host itself holds.
    #[must_use]
    pub fn with_host(mut self, known: Redactor) -> Self {
        self.of_host = known;
        self
    }

    /// Gives all tenants a value under a name. A tenant that stores that name has its own.
    #[must_use]
    pub fn with_shared(mut self, name: SecretName, value: SecretText) -> Self {
        self.shared.push((name, value));
        self
    }

    /// What the host itself holds, such as its keys for providers. No run may record any of it, whatever sends it to
    /// the run.
    pub fn of_host(&self) -> Redactor {
        self.of_host.clone()
    }

    /// The value and where it may go. Only [`Call`] hands it on, so that whatever a run has seen is known to its
    /// redactor.
    pub async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        if let Some(record) = self.store.get(Kind::Secret, &key(place, name)).await? {
            let body: Body = record.read()?;
            let provenance = body.provenance();
            return Ok(Some(HeldSecret { value: SecretText::new(body.value), provenance }));
        }
        let shared = self.shared.iter().find(|(shared, _)| shared == name);
        Ok(shared.map(|(_, value)| value.clone().into()))
    }

    /// Answers whether the name was new.
    pub async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        retry_moved(|| self.try_to_put(place, name, &secret, at)).await
    }

    async fn try_to_put(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: &HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let key = key(place, name);
        let (created_at, expected, put) = match self.store.get(Kind::Secret, &key).await? {
            // A body that cannot be read any more is replaced like any other.
            Some(before) => {
                let created_at = before.read::<Body>().map_or(at, |before| before.created_at);
                (created_at, Expected::Version(before.version), Put::Replaced)
            }
            None => (at, Expected::Absent, Put::Created),
        };
        let body = Body {
            name: name.clone(),
            value: secret.value.reveal().to_owned(),
            provenance: secret.provenance.as_ref().map(|provenance| serde_json::json!(provenance)),
            created_at,
            updated_at: at,
        };
        let change = RecordChange::put(Kind::Secret, key, place.clone(), &body)?;
        self.store.commit(Batch::of_records([change.expecting(expected)])).await?;
        Ok(put)
    }

    /// In the order of their names, without their values.
    pub async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        let all = RecordQuery::all(Kind::Secret, Within::Place(place.clone()));
        let mut secrets = Vec::new();
        for body in self.store.scan(&all).await?.iter().map(Record::read::<Body>) {
            let body = body?;
            secrets.push(StoredSecret {
                provenance: body.provenance(),
                name: body.name,
                created_at: body.created_at,
                updated_at: body.updated_at,
            });
        }
        secrets.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(secrets)
    }

    /// Answers whether there was one.
    pub async fn remove_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<bool, StoreError> {
        let gone =
            RecordChange::delete(Kind::Secret, key(place, name)).expecting(Expected::Present);
        match self.store.commit(Batch::of_records([gone])).await {
            Ok(()) => Ok(true),
            Err(StoreError::Moved { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The secret that a name means in a scope: a workspace's own stands before the whole tenant's.
    async fn seen_in(
        &self,
        scope: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        for place in scope.shelves() {
            if let Some(value) = self.resolve_secret(&place, name).await? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

fn key(place: &Scope, name: &SecretName) -> Key {
    Key::in_place(place, [name.as_str()])
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
    /// It must be stored, or another named.
    #[error("there is no secret {}", redact_text(.0.as_str()))]
    NotFound(SecretName),
    /// It may be read later.
    #[error("the secret {} cannot be read now", redact_text(.0.as_str()))]
    Unavailable(SecretName),
    /// It goes to its audiences alone, and this is none.
    #[error("the secret {} is bound to its audiences; store one without for this", redact_text(.0.as_str()))]
    Bound(SecretName),
}

impl From<SecretError> for CallFailure {
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
    /// The value of a secret that the run can see, for the host's own use. From here on nothing that this run records can
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
        match self.secrets.seen_in(&self.scope(), name).await {
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

    /// Takes what can be recorded of a text that is still being written: what may be the beginning of a secret stays.
    pub fn take_recordable(&self, text: &mut String) -> String {
        self.resolved.known().take_recordable(text)
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
        let found = self.secrets.seen_in(&Scope::of(self.birth), name).await;
        !matches!(found, Ok(None))
    }
}

/// What the calls of one run have resolved, for as long as it is driven here. The next holder resolves again
/// before it can record anything.
#[derive(Debug, Clone)]
pub(crate) struct Resolved(Arc<Mutex<Redactor>>);

impl Resolved {
    /// Begins with what no run of this host may record.
    pub(crate) fn over(host: Redactor) -> Self {
        Self(Arc::new(Mutex::new(host)))
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Redactor> {
        // Learning replaces nothing, so a panic under the lock leaves nothing unknown that was known.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn audiences_that_cannot_be_read_admit_nobody() {
        let audiences = |provenance: Value| {
            let body = json!({ "name": "n", "value": "v", "provenance": provenance,
                "createdAt": "1970-01-01T00:00:00Z", "updatedAt": "1970-01-01T00:00:00Z" });
            let body: Body = serde_json::from_value(body).ok()?;
            body.provenance().map(|provenance| provenance.audiences)
        };
        assert_eq!(audiences(Value::Null), None);
        assert_eq!(audiences(json!("broken")), Some(Vec::new()));
        let known = json!({ "audiences": ["api.example.com"] });
        assert_eq!(audiences(known), Some(vec!["api.example.com".to_owned()]));
    }
}
