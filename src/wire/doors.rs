//! The doors of a host over its own API: the same router and gate as over a socket, with the key that the caller shows.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

use callboard_doors::{Answer, Api, ApiError, Call, Doors};
use callboard_server::{InProcess, InProcessCall, InProcessCaller, Surface};

use super::console::LARGEST_ANSWER;

#[derive(Debug)]
struct HostApi(InProcess);

pub(super) fn open(api: &Surface, stop: CancellationToken) -> Doors {
    Doors::new(Arc::new(HostApi(InProcess::new(api.clone()))), stop)
}

#[async_trait]
impl Api for HostApi {
    async fn call(&self, key: &SecretString, call: Call) -> Result<Answer, ApiError> {
        let asked = InProcessCall {
            caller: InProcessCaller::Shows(key.expose_secret()),
            method: call.method,
            path: &call.path,
            body: call.body.map(|body| ("application/json", body.to_string())),
            if_match: None,
            last_event_id: None,
            idempotency_key: call.idempotency_key.as_deref(),
        };
        let answer = self.0.call(asked).await;
        let answer = answer.map_err(|error| ApiError::Unreachable(error.to_string()))?;
        let status = answer.status;
        let broken = || ApiError::Unreachable("the answer broke off or is too large".to_owned());
        let bytes = answer.bytes(LARGEST_ANSWER).await.ok_or_else(broken)?;
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}
