//! The one guarded HTTP client: addresses checked and pinned, bounded in time and size, no redirects.

mod address;
mod guard;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};

use callboard_core::EgressList;
use callboard_engine::{Deliver, DeliverError, Parcel};
use callboard_protocol::Tenant;

use guard::Guard;

pub use guard::{Lookup, SystemLookup};

/// How far requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only over TLS, and only to addresses of the public internet.
    Public,
    /// Loopback and private networks too, also without TLS: for tests and for networks of one's own. Never where a
    /// machine gets its credentials.
    Anywhere,
}

/// A request to be sent.
pub struct Outgoing {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// How long the whole exchange may take.
    pub within: Duration,
    /// How much of the answer is read.
    pub most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

/// What came back, whatever its status.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in small letters; values that are no text are left out.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// Whether there was more than was asked for.
    pub is_cut: bool,
}

/// Why there is no answer. The texts repeat nothing of the URL: it may contain a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The rules forbid it; no request was made.
    #[error("{0}")]
    Refused(String),
    /// Trying again may help.
    #[error("{0}")]
    NoAnswer(String),
}

impl EgressError {
    fn refused(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

/// Sends requests within its reach. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Egress {
    guard: Guard,
    /// What tenants may reach of it.
    lists: Arc<RwLock<BTreeMap<Tenant, EgressList>>>,
    /// Made at the first request: a host that sends nothing needs no certificates.
    client: Arc<OnceLock<Result<Client, EgressError>>>,
}

impl Egress {
    pub fn new(reach: Reach, lookup: Arc<dyn Lookup>) -> Self {
        Self { guard: Guard { reach, lookup }, lists: Arc::default(), client: Arc::default() }
    }

    pub fn reach(&self) -> Reach {
        self.guard.reach
    }

    /// From here on requests of tenants are judged by these.
    pub fn set_lists(&self, lists: BTreeMap<Tenant, EgressList>) {
        *self.lists.write().unwrap_or_else(PoisonError::into_inner) = lists;
    }

    /// Whether a tenant's requests may go there, as its lists say.
    pub fn admit_of(&self, tenant: &Tenant, url: &str) -> Result<(), EgressError> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner);
        let Some(list) = lists.get(tenant) else { return Ok(()) };
        let url = reqwest::Url::parse(url).ok();
        let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port())));
        let Some((host, port)) = host else {
            return Err(EgressError::refused("the address is no URL"));
        };
        match list.refusal(host, port) {
            Some(rule) => Err(EgressError::Refused(format!(
                "the host may not be reached: tenants.{tenant}.egress.{rule}"
            ))),
            None => Ok(()),
        }
    }

    /// Sends one request of a tenant. A redirect is an answer like any other, and judged anew when it is followed.
    pub async fn send_of(
        &self,
        tenant: &Tenant,
        outgoing: Outgoing,
    ) -> Result<Answer, EgressError> {
        self.admit_of(tenant, &outgoing.url)?;
        self.send(outgoing).await
    }

    /// Sends one request of the host itself. A redirect is an answer like any other.
    pub async fn send(&self, outgoing: Outgoing) -> Result<Answer, EgressError> {
        let most = outgoing.most;
        let mut response = self.exchange(outgoing).await?;
        let status = response.status().as_u16();
        let headers = read_headers(&response);
        let mut body = Vec::new();
        while body.len() <= most
            && let Some(chunk) = response.chunk().await.map_err(|error| explain(&error))?
        {
            body.extend_from_slice(&chunk);
        }
        let is_cut = body.len() > most;
        body.truncate(most);
        Ok(Answer { status, headers, body, is_cut })
    }

    /// Up to the answer's head.
    async fn exchange(&self, outgoing: Outgoing) -> Result<Response, EgressError> {
        // Addresses that stand in the URL itself are never resolved, so this is where they are checked.
        let url = self.guard.read(&outgoing.url)?;
        let method = match outgoing.method {
            Method::Get => reqwest::Method::GET,
            Method::Head => reqwest::Method::HEAD,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Patch => reqwest::Method::PATCH,
            Method::Delete => reqwest::Method::DELETE,
            Method::Options => reqwest::Method::OPTIONS,
        };
        let mut request =
            self.client()?.request(method, url).timeout(outgoing.within).body(outgoing.body);
        for (name, value) in outgoing.headers {
            request = request.header(name, value);
        }
        request.send().await.map_err(|error| explain(&error))
    }

    /// The client itself, for a protocol that sends all its requests to this one address.
    pub(crate) fn client_for(&self, url: &str) -> Result<Client, EgressError> {
        self.guard.read(url)?;
        self.client().cloned()
    }

    fn client(&self) -> Result<&Client, EgressError> {
        let build = || {
            Client::builder()
                .dns_resolver(Arc::new(self.guard.clone()))
                .redirect(Policy::none())
                .no_proxy()
                // Bytes are wanted as they were sent: digests are of those.
                .no_gzip()
                // A connection that is kept would not be looked up and checked again.
                .pool_max_idle_per_host(0)
                .build()
                .map_err(|_| EgressError::NoAnswer("this host has no certificates".to_owned()))
        };
        self.client.get_or_init(build).as_ref().map_err(Clone::clone)
    }
}

/// The host of a URL, with its port where that is not the default: all that may be recorded of it.
pub(crate) fn authority(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn read_headers(response: &Response) -> BTreeMap<String, String> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    response.headers().iter().filter_map(text).collect()
}

/// Finds what the guard said on the way up, or says in our words what the client said.
fn explain(error: &reqwest::Error) -> EgressError {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(ours) = inner.downcast_ref::<EgressError>() {
            return ours.clone();
        }
        cause = inner.source();
    }
    let what = match () {
        () if error.is_timeout() => "no answer in time",
        () if error.is_connect() => "no connection",
        () if error.is_builder() => "the request cannot be written",
        () => "the exchange broke off",
    };
    EgressError::NoAnswer(what.to_owned())
}

#[async_trait]
impl Deliver for Egress {
    async fn admit(&self, tenant: &Tenant, url: &str) -> Result<(), DeliverError> {
        self.admit_of(tenant, url)?;
        Ok(self.guard.admit(url).await?)
    }

    /// Of a receiver's response only the status is used.
    async fn post(&self, parcel: Parcel) -> Result<u16, DeliverError> {
        let Parcel { tenant, url, headers, body, within } = parcel;
        self.admit_of(&tenant, &url)?;
        let body = body.into_bytes();
        let outgoing = Outgoing { method: Method::Post, url, headers, body, within, most: 0 };
        Ok(self.exchange(outgoing).await?.status().as_u16())
    }
}

impl From<EgressError> for DeliverError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::Refused(why) => Self::Refused(why),
            EgressError::NoAnswer(why) => Self::NoAnswer(why),
        }
    }
}

impl std::fmt::Debug for Outgoing {
    /// Leaves out what may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("method", &self.method).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}
