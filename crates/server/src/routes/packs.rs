//! Packs: installed for all workspaces of a tenant from an archive or a registry, listed, removed.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_agents::{Announced, Offer, PackError, Registry, Unsigned};
use callboard_engine::{PackId, PackOwner, PutPack};
use callboard_protocol::{PackName, PackVersion};
use serde::Deserialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Sent, Shaped};
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

/// The scope that unsigned packs need beyond `packs:install`.
const ADMIN: &str = "admin";

pub(super) async fn catalog(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let size = PageSize::read_or_most(&query)?.get();
    let snapshot = host.app.agents.snapshot();
    let page = snapshot.catalog(&caller.scope.realm(), query.get("cursor"), size);
    Ok(Answer::of(StatusCode::OK, &page))
}

pub(super) async fn export(State(host): State<Arc<Host>>, caller: Caller) -> Answer {
    Answer::of(StatusCode::OK, &host.app.agents.snapshot().export(&caller.scope.realm()))
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    Ok(Answer::of(StatusCode::OK, &host.app.agents.snapshot().lines(&caller.scope.realm())))
}

pub(super) async fn install(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    Sent(archive): Sent,
) -> Result<Answer, Problem> {
    let parameters = Parameters::closed(&uri, &["allowUnsigned", "integrity"])?;
    let allowed = parameters.read("allowUnsigned", "1", |text| (text == "1").then_some(()))?;
    let unsigned = match allowed {
        Some(()) if caller.may(ADMIN) => Unsigned::Allowed,
        Some(()) => {
            let message = "only a key with the scope admin lets in packs that nothing proves";
            return Err(Problem::new(Code::Forbidden, message).with("scopeRequired", ADMIN));
        }
        None => Unsigned::Refused,
    };
    // A plus that nobody encoded arrives as a space, and no digest has one.
    let integrity = parameters.get("integrity").map(|text| text.replace(' ', "+"));
    let integrity = integrity.map(Announced::Caller);
    let offer = Offer { integrity, ..Offer::plain(Arc::from(archive.as_ref())) };
    keep(&host, &caller, offer, unsigned).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FetchPack {
    url: String,
    name: String,
    version: Option<String>,
}

/// Fetches only from where the operator allows: a caller must not be able to send this host to any address.
pub(super) async fn fetch(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    Shaped(wanted): Shaped<FetchPack>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let downloads = &host.app.downloads;
    let url = wanted.url.trim_end_matches('/');
    if !downloads.registries.iter().any(|known| known.trim_end_matches('/') == url) {
        return Err(Problem::invalid_at("url", "is not a registry that this host fetches from"));
    }
    let name: PackName = wanted.name.parse().map_err(PackError::Name)?;
    let registry = Registry::open(&*downloads.fetch, url).await?;
    let version = match &wanted.version {
        Some(text) => text.parse().map_err(PackError::Version)?,
        None => registry.latest(&name).await?,
    };
    let offer = registry.download(&name, &version).await?;
    keep(&host, &caller, offer, Unsigned::Refused).await
}

async fn keep(
    host: &Host,
    caller: &Caller,
    offer: Offer,
    unsigned: Unsigned,
) -> Result<Answer, Problem> {
    let owner = PackOwner::Realm(caller.whole_realm()?);
    let (installed, put) = host.app.agents.install(owner, offer, unsigned, host.now()).await?;
    let status = match put {
        PutPack::Created => StatusCode::CREATED,
        PutPack::Unchanged | PutPack::Conflict => StatusCode::OK,
    };
    let (name, version) = (installed.pack.name(), installed.pack.version());
    caller.audit(format_args!("{name} {version}"), "pack installed");
    Ok(Answer::of(status, &installed.line()))
}

#[derive(Debug, Deserialize)]
pub(super) struct Place {
    name: String,
    version: String,
}

/// What is no name or no version names nothing that could be here.
pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path(place): Path<Place>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let parsed: Option<(PackName, PackVersion)> =
        place.name.parse().ok().zip(place.version.parse().ok());
    let (name, version) = parsed.ok_or_else(|| Problem::no_such("pack"))?;
    let id = PackId { owner: PackOwner::Realm(caller.whole_realm()?), name, version };
    if host.app.agents.remove(&id).await? {
        caller.audit(format_args!("{} {}", id.name, id.version), "pack removed");
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let of_host = PackId { owner: PackOwner::Host, ..id };
    let snapshot = host.app.agents.snapshot();
    if !snapshot.packs(&caller.scope.realm()).any(|pack| pack.id() == of_host) {
        return Err(Problem::no_such("pack"));
    }
    let message =
        "the host was given this pack at its start; start it without the pack to remove it";
    Err(Problem::new(Code::PackReserved, message))
}
