//! The port to the providers of models, for operators.

use std::fmt;

use async_trait::async_trait;

/// The providers that the host is configured with.
#[async_trait]
pub trait Providers: fmt::Debug + Send + Sync {
    /// Their names, in order.
    fn names(&self) -> Vec<String>;

    /// Asks one whether it is there and knows the key, without saying anything to a model. None: there is no such
    /// provider. What went wrong holds nothing of a key or an answer.
    async fn probe(&self, name: &str) -> Option<Result<(), String>>;
}

/// A host that asks no model.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProviders;

#[async_trait]
impl Providers for NoProviders {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn probe(&self, _: &str) -> Option<Result<(), String>> {
        None
    }
}
