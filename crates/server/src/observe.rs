//! What every request goes through, whatever becomes of it.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use callboard_protocol::{KeyId, Tenant};
use futures_util::FutureExt;
use tower::Service;

use crate::app::App;
use crate::client::{Client, Peer, TrustedProxies, base_of};
use crate::hosts::HostNames;
use crate::in_process::InHouse;
use crate::metrics::Answers;
use crate::operations::Operation;
use crate::path;
use crate::problem::{Code, CorrelationId, Problem};
use crate::routes::resource::{METADATA, METADATA_OF_MCP};
use crate::unread::Rest;
use crate::v2::edge;
use crate::v2::version::{self, Majors};

/// What the gate learned about a request, left on its response.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) operation: &'static Operation,
    pub(crate) answers: Arc<Answers>,
    pub(crate) key_id: Option<KeyId>,
    /// Whose things it was about.
    pub(crate) tenant: Option<Tenant>,
}

/// The operation's name for requests that reached none.
const UNROUTED: &str = "unrouted";

/// Checks the host's name, prepares the path, catches panics, sees to what was not read, counts and logs. Paths are rewritten before they are matched, so the
/// matching router stands behind this.
///
/// A service of its own because it meets every request: as a layer of a router it would be copied for each.
#[derive(Debug, Clone)]
pub struct Observed {
    routed: Router,
    /// Pages for people and doors for other protocols, beside the API.
    pages: Option<Router>,
    front: Arc<Front>,
}

/// What is known of this host before any of its parts is asked.
#[derive(Debug, Default)]
pub(crate) struct Front {
    hosts: HostNames,
    majors: Majors,
    public_url: Option<String>,
    /// Whether tokens are taken.
    has_issuers: bool,
    proxies: TrustedProxies,
}

impl Front {
    pub(crate) fn of(app: &App) -> Self {
        let config = &app.config;
        Self {
            hosts: config.hosts.clone(),
            majors: config.majors,
            public_url: config.public_url.clone(),
            has_issuers: !app.issuers.is_empty(),
            proxies: config.proxies.clone(),
        }
    }

    pub(crate) fn only(hosts: HostNames) -> Self {
        Self { hosts, ..Self::default() }
    }

    /// Where a caller that was refused finds who gives tokens.
    fn challenge(&self, request: &Request) -> Option<HeaderValue> {
        if !self.has_issuers {
            return None;
        }
        let base = base_of(self.public_url.as_deref(), request)?;
        let place = if request.uri().path() == "/mcp" { METADATA_OF_MCP } else { METADATA };
        HeaderValue::from_str(&format!("Bearer resource_metadata=\"{base}{place}\"")).ok()
    }
}

impl Observed {
    pub(crate) fn new(routed: Router, front: Front) -> Self {
        Self { routed, pages: None, front: Arc::new(front) }
    }

    pub(crate) fn show(&mut self, pages: Router) {
        self.pages = Some(pages);
    }
}

impl<B> Service<Request<B>> for Observed
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    /// As a router, this never waits for room: a full host refuses.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (observed, request) = (self.clone(), request.map(Body::new));
        Box::pin(async move { Ok(answer(observed, request).await) })
    }
}

async fn answer(observed: Observed, mut request: Request) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let rest = Rest::of(&mut request);
    let front = &observed.front;
    if let Some(peer) = request.extensions().get::<Peer>().copied() {
        let client = front.proxies.client(peer.address, peer.is_tls, request.headers());
        request.extensions_mut().insert(client);
    }
    let client = request.extensions().get::<Client>().copied();
    let challenge = front.challenge(&request);
    let mut response = match observed.pages {
        Some(mut pages) if path::is_page(request.uri().path(), request.headers()) => {
            match front.hosts.check(&request) {
                Ok(()) => call(&mut pages, request).await,
                Err(problem) => problem.into_response(),
            }
        }
        _ => spoken(observed.routed, &front.hosts, front.majors, request).await,
    };
    if let Some(challenge) = challenge.filter(|_| response.status() == StatusCode::UNAUTHORIZED) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    rest.settle(&mut response);
    log(&method, client, &response, began);
    response
}

/// What the protocol says, in the major that was asked for.
async fn spoken(
    mut routed: Router,
    hosts: &HostNames,
    majors: Majors,
    mut request: Request,
) -> Response {
    // The host's own programs may use what has ended for everybody else.
    let own = version::own(request.uri());
    let is_own = own.is_some();
    if let Some(uri) = own {
        *request.uri_mut() = uri;
    }
    let asked = request.uri().path().to_owned();
    let is_in_house = is_own || request.extensions().get::<InHouse>().is_some();
    let majors = if is_in_house { Majors::Both } else { majors };
    let mut way = version::way_of(&asked, majors);
    let entered = hosts.check(&request).and_then(|()| {
        // The version is judged before the path.
        let judged = version::judge(&request, way, majors)?;
        way = judged;
        let uri = path::rewrite(request.uri())?;
        edge::enter(&mut request, uri, judged, majors)
    });
    let response = match entered {
        Ok(()) => call(&mut routed, request).await,
        Err(problem) => problem.into_response(),
    };
    let mut response = edge::leave(way, &asked, response).await;
    if is_own {
        // What is said there is no part of the protocol.
        response.headers_mut().remove(version::VERSION);
    }
    response
}

async fn call(router: &mut Router, request: Request) -> Response {
    // A handler holds no state that a panic could leave half-changed: what it shares is behind locks.
    match AssertUnwindSafe(router.call(request)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => panicked(),
    }
}

fn panicked() -> Response {
    let problem = Problem::new(Code::InternalError, "something went wrong on this side");
    tracing::error!(correlation_id = problem.correlation_id(), "a request handler panicked");
    problem.into_response()
}

/// Never the path as it was sent and never the key: both may hold what belongs in no log.
fn log(method: &Method, client: Option<Client>, response: &Response, began: Instant) {
    let latency = began.elapsed();
    let seen = response.extensions().get::<Seen>();
    let status = response.status().as_u16();
    match seen {
        Some(seen) => seen.answers.count(status, latency),
        None => Answers::of(UNROUTED).count(status, latency),
    }
    tracing::info!(
        target: "callboard::access",
        key_id = seen.and_then(|seen| seen.key_id.as_ref()).map(KeyId::as_str),
        client = client.map(|client| client.address).map(tracing::field::display),
        method = method.as_str(),
        path = seen.map_or(UNROUTED, |seen| seen.operation.path),
        scope = seen.and_then(|seen| seen.operation.scope()),
        status,
        latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
        code = response.extensions().get::<Code>().map(|code| code.name()),
        correlation_id = response.extensions().get::<CorrelationId>().map(|id| id.0.as_str()),
        "request answered",
    );
}
