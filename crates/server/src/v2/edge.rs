//! The edge that every request crosses: its version is judged, its path is read, its answer is put into the words of its
//! major.

use axum::extract::{FromRequestParts, Request};
use axum::http::header::VARY;
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::Response;
use callboard_protocol::Dialect;

use super::version::{Majors, VERSION, WELL_KNOWN, Way};
use super::{id, problem};
use crate::path;
use crate::problem::Problem;

/// Collections whose members have ids that are bound to their tenant.
const BOUND: [&str; 3] = ["runs", "webhooks", "trigger-subscriptions"];

/// What handlers read, under the name that the second major gives it. The old name means nothing there.
const RENAMED: [(&str, &str); 2] =
    [("openwop-dedup", "x-dedup"), ("openwop-force-engine-version", "x-force-engine-version")];

/// The major that a request speaks. Whatever does not cross the edge speaks the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Speaks(pub(crate) Dialect);

impl Speaks {
    pub(crate) fn of(request: &Request) -> Self {
        request.extensions().get::<Self>().copied().unwrap_or_default()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Speaks {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or_default())
    }
}

/// The tenant that the id in the path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimedTenant(pub(crate) String);

impl ClaimedTenant {
    /// The same answer whether the thing exists or not: nobody has looked.
    pub(crate) fn check(&self, tenant: &str) -> Result<(), Problem> {
        if self.0 == tenant { Ok(()) } else { Err(problem::of_another_tenant()) }
    }
}

/// Turns a request of the second major into one that the router knows. `uri` is the request's, with its verb already a
/// segment.
pub(crate) fn enter(
    request: &mut Request,
    uri: Uri,
    way: Way,
    majors: Majors,
) -> Result<(), Problem> {
    *request.uri_mut() = uri;
    let Way::Spoken(dialect) = way else { return Ok(()) };
    request.extensions_mut().insert(Speaks(dialect));
    if dialect == Dialect::V2 {
        rename(request.headers_mut());
        let (uri, tenant) = bare(request.uri(), majors)?;
        *request.uri_mut() = uri;
        if let Some(tenant) = tenant {
            request.extensions_mut().insert(ClaimedTenant(tenant));
        }
    }
    Ok(())
}

fn rename(headers: &mut HeaderMap) {
    for (second, first) in RENAMED.map(|pair| (pair.0, HeaderName::from_static(pair.1))) {
        headers.remove(&first);
        let values: Vec<HeaderValue> = headers.get_all(second).iter().cloned().collect();
        for value in values {
            headers.append(first.clone(), value);
        }
    }
}

/// The path with the id of the first major in the place of a bound one, and the tenant that was bound to it.
fn bare(uri: &Uri, majors: Majors) -> Result<(Uri, Option<String>), Problem> {
    let mut segments: Vec<&str> = uri.path().split('/').collect();
    let Some([_, collection, named, ..]) = segments.get_mut(..).filter(|all| all.len() > 2) else {
        return Ok((uri.clone(), None));
    };
    // A verb of the whole collection is no id.
    if !BOUND.contains(collection) || named.starts_with('@') {
        return Ok((uri.clone(), None));
    }
    let unreadable = || Problem::invalid("the path cannot be read");
    let written = id::read(&path::decode(named).ok_or_else(unreadable)?)?;
    if written.tenant.is_none() && majors == Majors::Second {
        return Err(id::unbound());
    }
    let encoded = path::encode(&written.id);
    *named = &encoded;
    let joined = segments.join("/");
    let with_query = match uri.query() {
        Some(query) => format!("{joined}?{query}"),
        None => joined,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(with_query.parse::<PathAndQuery>().map_err(|_| unreadable())?);
    let uri = Uri::from_parts(parts).map_err(|_| unreadable())?;
    Ok((uri, written.tenant))
}

/// Puts an answer into the words of its major. `path` is the one that was asked for.
pub(crate) async fn leave(way: Way, path: &str, response: Response) -> Response {
    let mut response = match way {
        Way::Spoken(Dialect::V2) => problem::project(response).await,
        Way::Spoken(Dialect::V1) | Way::Beside => response,
    };
    if let Some(version) = way.version() {
        response.headers_mut().insert(VERSION, version);
    }
    if path == WELL_KNOWN {
        response.headers_mut().append(VARY, HeaderValue::from_static("OpenWOP-Version"));
    }
    response
}
