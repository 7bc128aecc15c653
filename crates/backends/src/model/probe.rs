//! Whether a provider is there, knows the key and has a model, found out without saying anything.

use std::time::Duration;

use callboard_agents::{Fault, ModelError};

use super::{LiveModel, fault};

/// A list of models is a small answer; a person waits for it.
const WITHIN: Duration = Duration::from_secs(10);

impl LiveModel {
    /// Asks for the list of models, and reads no more than how that went.
    pub async fn probe(&self) -> Result<(), ModelError> {
        self.look_at(self.settings.base_url.models(self.settings.kind)).await
    }

    /// Whether the provider has a model; one that cannot be asked has it.
    pub async fn has(&self, model: &str) -> Result<bool, ModelError> {
        let Some(address) = self.settings.base_url.model(self.settings.kind, model) else {
            return Ok(true);
        };
        match self.look_at(address).await {
            Err(ModelError { fault: Fault::NotFound, .. }) => Ok(false),
            looked => looked.map(|()| true),
        }
    }

    async fn look_at(&self, address: String) -> Result<(), ModelError> {
        let provider = self.settings.name.as_str();
        let mut asked = self.client()?.get(address).timeout(WITHIN);
        for (name, value) in self.headers()? {
            asked = asked.header(name, value);
        }
        let answer = asked.send().await.map_err(|error| self.failed(fault::transport(&error)))?;
        if answer.status().is_success() {
            return Ok(());
        }
        let wait = fault::retry_after(answer.headers());
        Err(ModelError::of_status(provider, answer.status().as_u16(), wait))
    }
}
