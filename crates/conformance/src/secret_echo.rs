//! `conformance.secret.echo` with the secrets that it is asked for: what shows that values arrive without showing them.

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use callboard_core::{Outcome, RetryClass, SecretText};
use callboard_engine::{Activity, Call, CallFailure, Secrets};
use callboard_protocol::{Failure, Object, hex};

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
                let CallFailure { failure, class } = error.into();
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

/// Every tenant's own secrets, and those of conformance tests for those who have not stored these names.
pub fn with_secrets(secrets: Secrets) -> Secrets {
    SEEDS.iter().fold(secrets, |secrets, (name, value)| {
        secrets.with_shared((*name).into(), SecretText::new((*value).to_owned()))
    })
}
