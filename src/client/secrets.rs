//! Requests about secrets.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use callboard_core::SecretText;

use super::{Client, Kind};
use crate::exit::CommandError;

/// Where a secret may go, and until when.
pub(crate) struct Bounds<'a> {
    pub(crate) audiences: &'a [String],
    pub(crate) expires_at: Option<&'a str>,
}

/// The outcome of storing a secret.
pub(crate) struct Stored {
    pub(crate) is_new: bool,
    /// What the host says of it: all but the value.
    pub(crate) answer: Value,
}

impl Client {
    pub(crate) async fn put_secret(
        &self,
        name: &str,
        value: &SecretText,
        bounds: &Bounds<'_>,
    ) -> Result<Stored, CommandError> {
        let mut body = json!({ "value": value.reveal() });
        if !bounds.audiences.is_empty() {
            body["audiences"] = json!(bounds.audiences);
        }
        if let Some(expires_at) = bounds.expires_at {
            body["expiresAt"] = json!(expires_at);
        }
        let response =
            self.send(self.request(Method::PUT, &Kind::SECRET.at(name, "")).json(&body)).await?;
        let is_new = response.status() == StatusCode::CREATED;
        Ok(Stored { is_new, answer: self.read(response).await? })
    }
}
