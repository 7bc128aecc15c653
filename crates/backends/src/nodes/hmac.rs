//! `core.crypto.hmac-sign` and `hmac-verify` with a key that is the host's secret: only its name is in the definition,
//! and nothing of it in the log.

use async_trait::async_trait;
use callboard_core::{Outcome, RetryClass, keyed_hash};
use callboard_engine::{Activity, Call, CallFailure};
use callboard_protocol::{Object, SecretName};
use serde_json::Value;

use super::given::{invalid, outcome};

#[derive(Debug)]
pub(super) struct KeyedHash;

#[async_trait]
impl Activity for KeyedHash {
    async fn perform(&self, call: Call) -> Outcome {
        outcome(hash(&call).await)
    }
}

async fn hash(call: &Call) -> Result<Object, CallFailure> {
    let name = call.config.get("credentialsRef").and_then(Value::as_str);
    let name = name.ok_or_else(|| invalid("credentialsRef names no secret"))?;
    let key = call.secret(&SecretName::from(name)).await?;
    keyed_hash(&call.type_id, &call.config, &call.inputs, key.reveal())
        .map_err(|failure| CallFailure { failure, class: RetryClass::Final })
}
