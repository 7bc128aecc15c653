//! What the client asks about heartbeats.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    pub(crate) async fn heartbeats(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/heartbeats"))).await
    }

    pub(crate) async fn add_heartbeat(&self, body: &Value) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/heartbeats");
        self.add(&path, body).await
    }

    pub(crate) async fn enable_heartbeat(
        &self,
        id: &str,
        enabled: bool,
    ) -> Result<Value, CommandError> {
        let body = json!({ "enabled": enabled });
        let changed = self.json(self.request(Method::PATCH, &path(id)).json(&body)).await;
        changed.map_err(|error| no_heartbeat(error, id))
    }

    pub(crate) async fn remove_heartbeat(&self, id: &str) -> Result<(), CommandError> {
        let removed = self.send(self.request(Method::DELETE, &path(id))).await;
        removed.map(drop).map_err(|error| no_heartbeat(error, id))
    }
}

fn path(id: &str) -> String {
    format!("{EXTENSION}/heartbeats/{}", segment(id))
}

fn no_heartbeat(error: CommandError, id: &str) -> CommandError {
    let hint = "`callboard heartbeats list` shows those that this key can see";
    or_not_found(error, &format!("no heartbeat {id}"), hint)
}
