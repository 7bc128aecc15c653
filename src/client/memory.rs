//! What the client asks about memory.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    pub(crate) async fn memory(&self, query: &[(&str, String)]) -> Result<Value, CommandError> {
        self.json(self.request_with(Method::GET, &format!("{EXTENSION}/memory"), query)?).await
    }

    pub(crate) async fn memory_entry(&self, id: &str) -> Result<Value, CommandError> {
        let found = self.json(self.request(Method::GET, &path(id)));
        found.await.map_err(|error| no_entry(error, id))
    }

    pub(crate) async fn memory_history(&self, id: &str) -> Result<Value, CommandError> {
        let found = self.json(self.request(Method::GET, &format!("{}/history", path(id))));
        found.await.map_err(|error| no_entry(error, id))
    }

    /// Answers the entry afterwards.
    pub(crate) async fn restore_memory(
        &self,
        id: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        let request = self.request(Method::POST, &format!("{}/restore", path(id)));
        self.json(request.json(body)).await.map_err(|error| no_entry(error, id))
    }

    pub(crate) async fn forget_memory(&self, id: &str) -> Result<(), CommandError> {
        let forgotten = self.send(self.request(Method::DELETE, &path(id))).await;
        forgotten.map(drop).map_err(|error| no_entry(error, id))
    }
}

fn path(id: &str) -> String {
    format!("{EXTENSION}/memory/{}", segment(id))
}

fn no_entry(error: CommandError, id: &str) -> CommandError {
    let hint = "`callboard memory list` shows those that this key can see";
    or_not_found(error, &format!("no memory entry {id}"), hint)
}
