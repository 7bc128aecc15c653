//! What the client asks about keys.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

/// What becomes of what a key made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    GoesOn,
    Stops,
}

impl Client {
    pub(crate) async fn keys(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/keys"))).await
    }

    pub(crate) async fn create_key(&self, body: &Value) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, &format!("{EXTENSION}/keys")).json(body)).await
    }

    /// A key, with what it made and would go on without it.
    pub(crate) async fn key(&self, id: &str) -> Result<Value, CommandError> {
        let request = self.request(Method::GET, &format!("{EXTENSION}/keys/{}", segment(id)));
        self.json(request).await.map_err(|error| no_key(error, id))
    }

    pub(crate) async fn revoke_key(&self, id: &str, made: Made) -> Result<(), CommandError> {
        let query = match made {
            Made::GoesOn => "",
            Made::Stops => "?cascade=1",
        };
        let path = format!("{EXTENSION}/keys/{}{query}", segment(id));
        let request = self.request(Method::DELETE, &path);
        self.send(request).await.map(drop).map_err(|error| no_key(error, id))
    }

    /// Gives the holder of a key a new one in its place.
    pub(crate) async fn rotate_key(&self, id: &str) -> Result<Value, CommandError> {
        let request =
            self.request(Method::POST, &format!("{EXTENSION}/keys/{}/rotate", segment(id)));
        self.json(request).await.map_err(|error| no_key(error, id))
    }
}

fn no_key(error: CommandError, id: &str) -> CommandError {
    or_not_found(
        error,
        &format!("no key {id}"),
        "`callboard keys list` shows the keys of this tenant",
    )
}
