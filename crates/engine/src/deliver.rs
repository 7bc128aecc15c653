//! The port to the client that sends requests out of the host.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use callboard_protocol::Tenant;

/// The way out. Whatever is posted has passed the host's rules on where requests may go.
#[async_trait]
pub trait Deliver: fmt::Debug + Send + Sync {
    /// Whether requests may go to this address as things stand. `post` asks again for itself: names move.
    async fn admit(&self, tenant: &Tenant, url: &str) -> Result<(), DeliverError>;

    /// Posts once and answers the status. A redirect is an answer like any other and is not followed.
    async fn post(&self, parcel: Parcel) -> Result<u16, DeliverError>;
}

/// One request with a JSON body. What it holds is not for logs.
pub struct Parcel {
    /// Whose it is.
    pub tenant: Tenant,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// How long the whole exchange may take.
    pub within: Duration,
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("within", &self.within).finish_non_exhaustive()
    }
}

/// Why there is no answer. Neither text repeats the address, which may hold a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliverError {
    /// The host does not send there; nobody was contacted.
    #[error("{0}")]
    Refused(String),
    /// Nobody answered in time; trying again may help.
    #[error("{0}")]
    NoAnswer(String),
}
