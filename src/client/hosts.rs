//! What the client asks about the host itself: its processes, its providers, what was spent.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION, or_not_found, segment};
use crate::exit::CommandError;

impl Client {
    pub(crate) async fn spend(&self, days: u32) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/spend");
        self.json(self.request_with(Method::GET, &path, &[("days", days.to_string())])?).await
    }

    pub(crate) async fn hosts(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/hosts"))).await
    }

    pub(crate) async fn reload(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, &format!("{EXTENSION}/reload"))).await
    }

    pub(crate) async fn probe_provider(&self, name: &str) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/providers/{}/probe", segment(name));
        let probed = self.json(self.request(Method::POST, &path)).await;
        let hint = "`callboard hosts --json` shows those that the host is configured with";
        probed.map_err(|error| or_not_found(error, &format!("no provider {name}"), hint))
    }
}
