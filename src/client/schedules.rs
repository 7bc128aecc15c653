//! What the client asks about schedules.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    /// Every schedule that the key can see, page after page.
    pub(crate) async fn schedules(
        &self,
        query: &[(&str, String)],
    ) -> Result<Vec<Value>, CommandError> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let mut asked = vec![("limit", "200".to_owned())];
            asked.extend_from_slice(query);
            asked.extend(cursor.map(|cursor| ("cursor", cursor)));
            let path = format!("{EXTENSION}/schedules");
            let mut page: Value = self.json(self.request_with(Method::GET, &path, &asked)?).await?;
            if let Some(Value::Array(schedules)) = page.get_mut("schedules").map(Value::take) {
                all.extend(schedules);
            }
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    pub(crate) async fn add_schedule(&self, body: &Value) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/schedules");
        self.add(&path, body).await
    }

    pub(crate) async fn change_schedule(
        &self,
        id: &str,
        body: &Value,
    ) -> Result<Value, CommandError> {
        let changed = self.json(self.request(Method::PATCH, &path(id, "")).json(body)).await;
        changed.map_err(|error| no_schedule(error, id))
    }

    pub(crate) async fn remove_schedule(&self, id: &str) -> Result<(), CommandError> {
        let removed = self.send(self.request(Method::DELETE, &path(id, ""))).await;
        removed.map(drop).map_err(|error| no_schedule(error, id))
    }

    pub(crate) async fn next_fires(&self, id: &str, count: u32) -> Result<Value, CommandError> {
        let path = path(id, &format!("/next?count={count}"));
        let next = self.json(self.request(Method::GET, &path)).await;
        next.map_err(|error| no_schedule(error, id))
    }

    pub(crate) async fn run_schedule(&self, id: &str) -> Result<Value, CommandError> {
        let started = self.json(self.request(Method::POST, &path(id, "/run-now"))).await;
        started.map_err(|error| no_schedule(error, id))
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("{EXTENSION}/schedules/{}{rest}", segment(id))
}

fn no_schedule(error: CommandError, id: &str) -> CommandError {
    let hint = "`callboard schedules list` shows those that this key can see";
    or_not_found(error, &format!("no schedule {id}"), hint)
}
