//! Requests about the org chart.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION};
use crate::exit::CommandError;

impl Client {
    /// The chart with its version.
    pub(crate) async fn org_chart(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::GET, &format!("{EXTENSION}/org-chart"))).await
    }

    /// Answers the chart with its version afterwards.
    pub(crate) async fn put_org_chart(&self, chart: &Value) -> Result<Value, CommandError> {
        self.json(self.request(Method::PUT, &format!("{EXTENSION}/org-chart")).json(chart)).await
    }
}
