//! Whether a provider is there and knows the key, found out without saying anything.

use std::time::Duration;

use callboard_agents::ModelError;

use super::{LiveModel, fault};

/// A list of models is a small answer; a person waits for it.
const WITHIN: Duration = Duration::from_secs(10);

impl LiveModel {
    /// Asks for the list of models, and reads no more than how that went.
    pub async fn probe(&self) -> Result<(), ModelError> {
        let provider = self.settings.name.as_str();
        let mut asked =
            self.client()?.get(self.settings.base_url.models(self.settings.kind)).timeout(WITHIN);
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
