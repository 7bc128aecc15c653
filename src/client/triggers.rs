//! Requests about dead letters.

use reqwest::Method;
use serde_json::Value;

use super::{Client, Kind, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    pub(crate) async fn trigger_presets(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, "/v1/host/callboard/trigger-presets")).await
    }

    pub(crate) async fn trigger_dead_letters(
        &self,
        id: &str,
        query: &[(&str, String)],
    ) -> Result<Value, CommandError> {
        let path = format!("/v1/trigger-subscriptions/{}/dead-letters", segment(id));
        let found = self.json(self.request_with(Method::GET, &path, query)?).await;
        found.map_err(|error| Kind::SUBSCRIPTION.missing(error, id))
    }

    pub(crate) async fn trigger_deliveries(&self, id: &str) -> Result<Value, CommandError> {
        self.get(&Kind::SUBSCRIPTION, id, "/deliveries?limit=200").await
    }

    pub(crate) async fn trigger_dead_letter(
        &self,
        id: &str,
        delivery: &str,
    ) -> Result<Value, CommandError> {
        let rest = format!("/dead-letters/{}", segment(delivery));
        self.get(&Kind::SUBSCRIPTION, id, &rest).await
    }

    pub(crate) async fn replay_deliveries(&self, id: &str) -> Result<Value, CommandError> {
        let path = Kind::SUBSCRIPTION.at(id, "/dead-letters/replay");
        self.json(self.request(Method::POST, &path)).await
    }

    pub(crate) async fn drop_delivery(&self, id: &str, delivery: &str) -> Result<(), CommandError> {
        let path = Kind::SUBSCRIPTION.at(id, &format!("/dead-letters/{}", segment(delivery)));
        self.send(self.request(Method::DELETE, &path)).await.map(drop)
    }

    pub(crate) async fn replay_delivery(
        &self,
        id: &str,
        delivery: &str,
    ) -> Result<Value, CommandError> {
        let path =
            Kind::SUBSCRIPTION.at(id, &format!("/dead-letters/{}/replay", segment(delivery)));
        let replayed = self.json(self.request(Method::POST, &path)).await;
        replayed.map_err(|error| {
            let hint = "`callboard triggers dead-letters ID` shows those that can be replayed";
            or_not_found(error, &format!("no dead letter {delivery} of {id}"), hint)
        })
    }
}
