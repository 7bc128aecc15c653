//! What the client asks about keys.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    pub(crate) async fn keys(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/keys"))).await
    }

    pub(crate) async fn create_key(&self, body: &Value) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, &format!("{EXTENSION}/keys")).json(body)).await
    }

    pub(crate) async fn revoke_key(&self, id: &str) -> Result<(), CommandError> {
        let request = self.request(Method::DELETE, &format!("{EXTENSION}/keys/{}", segment(id)));
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
