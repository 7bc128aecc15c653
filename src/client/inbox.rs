//! Requests about questions of runs, and their answers.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Client, EXTENSION, segment};
use crate::exit::CommandError;
use crate::watch::question::Question;

impl Client {
    /// A page of what runs ask.
    pub(crate) async fn inbox(&self, query: &[(&str, String)]) -> Result<Value, CommandError> {
        self.json(self.request_with(Method::GET, &format!("{EXTENSION}/inbox"), query)?).await
    }

    /// What one run asks; nothing of a run that this key cannot see.
    pub(crate) async fn questions(&self, run: &str) -> Result<Vec<Question>, CommandError> {
        #[derive(serde::Deserialize)]
        struct Inbox {
            interrupts: Vec<Question>,
        }
        let found = self.inbox(&[("runId", run.to_owned())]).await?;
        let inbox: Inbox = self.understand(&found)?;
        Ok(inbox.interrupts)
    }

    pub(crate) async fn answer(
        &self,
        run: &str,
        node: &str,
        value: &Value,
    ) -> Result<Value, CommandError> {
        let path = format!("/v1/runs/{}/interrupts/{}", segment(run), segment(node));
        let body = json!({ "resumeValue": value });
        self.json(self.request(Method::POST, &path).json(&body)).await
    }

    /// Lets the host sign links to interrupts with a new secret.
    pub(crate) async fn rotate_links(&self) -> Result<Value, CommandError> {
        self.json(self.request(Method::POST, &format!("{EXTENSION}/interrupt-links/rotate"))).await
    }
}
