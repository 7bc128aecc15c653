//! Requests to a host's console.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION};
use crate::exit::CommandError;

impl Client {
    /// What the client's own key is.
    pub(crate) async fn whoami(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/whoami"))).await
    }

    /// An address that signs the holder of the key in, once and soon.
    pub(crate) async fn console_link(&self) -> Result<String, CommandError> {
        let made: Value = self.json(self.request(Method::POST, "/console/codes")).await?;
        let path = made.get("path").and_then(Value::as_str).unwrap_or_default();
        Ok(format!("{}{path}", self.base()))
    }
}
