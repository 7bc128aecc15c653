//! Requests about workflows.

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{Client, Kind, segment};
use crate::exit::{CommandError, Exit};

impl Client {
    /// The definition exactly as it was registered.
    pub(crate) async fn workflow(&self, id: &str) -> Result<String, CommandError> {
        let response =
            self.send(self.request(Method::GET, &format!("/v1/workflows/{}", segment(id)))).await;
        let response = response.map_err(|error| Kind::WORKFLOW.missing(error, id))?;
        self.text(response).await
    }

    /// Refuses a name that nothing here has. A key that may not read definitions leaves that to the host.
    pub(crate) async fn know_workflow(&self, id: &str) -> Result<(), CommandError> {
        match self.workflow(id).await {
            Err(error) if error.exit != Exit::Refused => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Adds something that starts the workflow of `workflowId`. Where it is refused because there is none, that is
    /// what is said, as `run` says it.
    pub(crate) async fn add(&self, kind: &Kind, body: &Value) -> Result<Value, CommandError> {
        let added = self.create(kind, body).await;
        let Err(error) = added else { return added };
        let id = body["workflowId"].as_str().unwrap_or_default();
        match (error.exit, self.workflow(id).await) {
            (Exit::Usage | Exit::NotFound, Err(unknown)) if unknown.exit == Exit::NotFound => {
                Err(unknown)
            }
            _ => Err(error),
        }
    }

    /// Registers or replaces a definition; answers whether it was new.
    pub(crate) async fn put_workflow(
        &self,
        id: &str,
        definition: Vec<u8>,
    ) -> Result<bool, CommandError> {
        let request = self.request(Method::PUT, &Kind::WORKFLOW.at(id, ""));
        let request = request.header(CONTENT_TYPE, "application/json").body(definition);
        Ok(self.send(request).await?.status() == StatusCode::CREATED)
    }
}
