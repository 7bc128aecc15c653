//! The providers of models that the host was configured with, for whoever asks how they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_backends::LiveModel;
use callboard_server::Providers;

#[derive(Debug, Clone, Default)]
pub(super) struct LiveProviders(pub(super) BTreeMap<String, Arc<LiveModel>>);

#[async_trait]
impl Providers for LiveProviders {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    async fn probe(&self, name: &str) -> Option<Result<(), String>> {
        let model = self.0.get(name)?;
        // A fault of a model names the provider and a status, and nothing that was sent.
        Some(model.probe().await.map_err(|error| error.to_string()))
    }
}
