//! `conformance.secret.echo` with the secrets that it is asked for: what shows that values arrive without showing them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use callboard_core::{Outcome, RetryClass, SecretText};
use callboard_engine::{
    Activity, Call, HeldSecret, Put, Scope, Secrets, StoreError, StoredSecret, Stumble,
};
use callboard_protocol::{Failure, Object, SecretName, Timestamp, hex};

/// What the protocol's fixtures ask for. Everybody may know these values; they must not come out all the same.
const SEEDS: [(&str, &str); 2] = [
    ("conformance-test-secret", "callboard-conformance-test-secret-value-5e1d0c"),
    ("openwop-conformance-canary-secret", "callboard-conformance-canary-NEVER-TOLD-9b27f4"),
];

/// Tells a secret's SHA-256 and its length in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SecretEcho;

#[async_trait]
impl Activity for SecretEcho {
    async fn perform(&self, call: Call) -> Outcome {
        let Some(name) = call.config.get("secretId").and_then(Value::as_str) else {
            let message = "config.secretId names no secret";
            let failure = Failure::new("credential_required", message);
            return Outcome::Failed { failure, class: RetryClass::Final };
        };
        match call.secret(&name.into()).await {
            Ok(secret) => Outcome::Done { outputs: echo(&secret) },
            Err(error) => {
                let Stumble { failure, class } = error.into();
                Outcome::Failed { failure, class }
            }
        }
    }
}

fn echo(secret: &SecretText) -> Object {
    let digest = Sha256::digest(secret.reveal());
    let digest = hex(digest);
    let echo = json!({ "secretSha256": digest, "secretLength": secret.reveal().len() });
    echo.as_object().cloned().unwrap_or_default()
}

/// Every tenant's own secrets, and under them those of conformance tests. A tenant that stores one of these names
/// has its own.
#[derive(Debug)]
pub struct SeededSecrets {
    own: Arc<dyn Secrets>,
}

impl SeededSecrets {
    pub fn over(own: Arc<dyn Secrets>) -> Self {
        Self { own }
    }
}

#[async_trait]
impl Secrets for SeededSecrets {
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        let own = self.own.resolve_secret(place, name).await?;
        let seed = || SEEDS.iter().find(|(seed, _)| *seed == name.as_str());
        Ok(own.or_else(|| seed().map(|(_, value)| SecretText::new((*value).to_owned()).into())))
    }

    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        self.own.put_secret(place, name, secret, at).await
    }

    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        self.own.secrets(place).await
    }

    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError> {
        self.own.remove_secret(place, name).await
    }
}
