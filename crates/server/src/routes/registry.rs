//! Installed packs, read as from a registry: without a key nothing is found, and what is no name is refused.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use callboard_agents::PackSearch;
use callboard_protocol::{PackName, PackVersion};
use serde::Deserialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::MaybeCaller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

pub(super) async fn search(
    State(host): State<Arc<Host>>,
    MaybeCaller(caller): MaybeCaller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let words = query.get("q").unwrap_or_default();
    let found = match caller {
        Some(caller) => host.app.agents.snapshot().search(&caller.scope.realm(), words),
        None => PackSearch::default(),
    };
    Ok(Answer::of(StatusCode::OK, &found))
}

#[derive(Debug, Deserialize)]
pub(super) struct Place {
    name: String,
    file: String,
}

pub(super) async fn manifest(
    State(host): State<Arc<Host>>,
    MaybeCaller(caller): MaybeCaller,
    Path(place): Path<Place>,
) -> Result<Answer, Problem> {
    let unknown = || Problem::no_such("pack");
    // The archive and its signature are not kept.
    let version = place.file.strip_suffix(".json").ok_or_else(unknown)?;
    let name: PackName = place.name.parse().map_err(|_| {
        Problem::new(Code::InvalidPackName, "the name is no pack's name").with("path", "name")
    })?;
    let version: PackVersion = version.parse().map_err(|_| {
        Problem::new(Code::InvalidVersion, "the version is not a semantic version")
            .with("path", "version")
    })?;
    let caller = caller.ok_or_else(unknown)?;
    let snapshot = host.app.agents.snapshot();
    let realm = caller.scope.realm();
    let mut packs = snapshot.packs(&realm);
    let found = packs
        .find(|installed| *installed.pack.name() == name && *installed.pack.version() == version);
    Ok(Answer::of(StatusCode::OK, &found.ok_or_else(unknown)?.page()))
}
