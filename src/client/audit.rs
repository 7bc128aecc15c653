//! What the client asks of the audit log.

use reqwest::Method;
use serde_json::Value;

use super::{Client, EXTENSION};
use crate::exit::CommandError;

impl Client {
    /// A page of entries.
    pub(crate) async fn audit_entries(
        &self,
        order: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Value, CommandError> {
        let mut query = vec![("order", order.to_owned()), ("limit", limit.to_string())];
        query.extend(after.map(|after| ("after", after.to_string())));
        self.json(self.request_with(Method::GET, &format!("{EXTENSION}/audit"), &query)?).await
    }

    /// Has the host walk its entries again.
    pub(crate) async fn verify_audit(&self, from: u64, to: u64) -> Result<Value, CommandError> {
        let query = [("fromSeq", from.to_string()), ("toSeq", to.to_string())];
        self.json(self.request_with(Method::GET, "/v1/audit/verify", &query)?).await
    }
}
