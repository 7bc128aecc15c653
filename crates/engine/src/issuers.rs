//! What is asked of an issuer of tokens over the network.

use std::fmt;

use async_trait::async_trait;

/// Implementations bound time and size, follow no redirect, and reach no private address that the operator has not
/// allowed.
#[async_trait]
pub trait IssuerHttp: fmt::Debug + Send + Sync {
    /// A document of at most so many bytes.
    async fn get(&self, url: &str, most: usize) -> Result<Vec<u8>, IssuerAway>;

    /// Posts a form, with the value of `Authorization` where there is one. The answer counts whatever its status.
    async fn post_form(
        &self,
        url: &str,
        form: String,
        authorization: Option<String>,
        most: usize,
    ) -> Result<(u16, Vec<u8>), IssuerAway>;
}

/// Why there is no answer; for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IssuerAway(pub String);
