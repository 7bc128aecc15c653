//! What the client asks about trigger subscriptions.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    pub(crate) async fn subscriptions(&self) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/trigger-subscriptions");
        self.json(self.request(Method::GET, &path)).await
    }

    pub(crate) async fn subscription(&self, id: &str) -> Result<Value, CommandError> {
        let found = self.json(self.request(Method::GET, &path(id, ""))).await;
        found.map_err(|error| no_subscription(error, id))
    }

    pub(crate) async fn remove_subscription(&self, id: &str) -> Result<(), CommandError> {
        let removed = self.send(self.request(Method::DELETE, &path(id, ""))).await;
        removed.map(drop).map_err(|error| no_subscription(error, id))
    }

    /// Answers the subscription with where to post, and the secret if there is one.
    pub(crate) async fn subscribe(&self, body: &Value) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/trigger-subscriptions");
        self.add(&path, body).await
    }

    pub(crate) async fn set_subscription(&self, id: &str, state: &str) -> Result<(), CommandError> {
        let request = self.request(Method::PATCH, &path(id, "")).json(&json!({ "state": state }));
        self.send(request).await.map(drop).map_err(|error| no_subscription(error, id))
    }

    pub(crate) async fn deliver(&self, id: &str, body: &Value) -> Result<Value, CommandError> {
        let request = self.request(Method::POST, &path(id, "/deliver")).json(body);
        self.json(request).await.map_err(|error| no_subscription(error, id))
    }

    pub(crate) async fn trigger_dead_letters(
        &self,
        id: &str,
        query: &[(&str, String)],
    ) -> Result<Value, CommandError> {
        let path = format!("/v1/trigger-subscriptions/{}/dead-letters", segment(id));
        let found = self.json(self.request_with(Method::GET, &path, query)?).await;
        found.map_err(|error| no_subscription(error, id))
    }

    pub(crate) async fn replay_delivery(
        &self,
        id: &str,
        delivery: &str,
    ) -> Result<Value, CommandError> {
        let rest = format!("/dead-letters/{}/replay", segment(delivery));
        let replayed = self.json(self.request(Method::POST, &path(id, &rest))).await;
        replayed.map_err(|error| {
            let hint = "`callboard triggers dead-letters ID` shows those that can be played again";
            or_not_found(error, &format!("no dead letter {delivery} of {id}"), hint)
        })
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("{EXTENSION}/trigger-subscriptions/{}{rest}", segment(id))
}

fn no_subscription(error: CommandError, id: &str) -> CommandError {
    let hint = "`callboard triggers list` shows those that this key can see";
    or_not_found(error, &format!("no trigger subscription {id}"), hint)
}
