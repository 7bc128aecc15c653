//! A host elsewhere as the API behind a door.

use async_trait::async_trait;
use reqwest::Response;
use reqwest::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};

use callboard_doors::{Answer, Api, ApiError, Call};

use super::{Client, REQUEST_TIMEOUT, innermost, once, patience};
use crate::wire::console::LARGEST_ANSWER;

#[async_trait]
impl Api for Client {
    async fn call(&self, key: &SecretString, call: Call) -> Result<Answer, ApiError> {
        let request = self.http.request(call.method, format!("{}{}", self.base, call.path));
        let request = request
            .header(AUTHORIZATION, format!("Bearer {}", key.expose_secret()))
            .timeout(REQUEST_TIMEOUT);
        let request = once(request, call.idempotency_key.as_deref());
        let request = match &call.body {
            Some(body) => request.json(body),
            None => request,
        };
        read(patience::send(request).await.map_err(unreached)?).await
    }
}

async fn read(mut response: Response) -> Result<Answer, ApiError> {
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreached)? {
        if bytes.len() + piece.len() > LARGEST_ANSWER {
            return Err(ApiError::Unreachable("its answer is too large".to_owned()));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
}

fn unreached(error: reqwest::Error) -> ApiError {
    ApiError::Unreachable(innermost(&error.without_url()))
}
