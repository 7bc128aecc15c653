//! What is remembered, for people: found, read with its history, put right, put back, forgotten.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_core::redact_text;
use callboard_engine::{
    MAX_MEMORY_BYTES, MemoryAuthor, MemoryQuery, MemoryRecord, MemoryRow, Place, StoreError,
};
use callboard_protocol::MemoryId;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

const KNOWN: [&str; 5] = ["scopeId", "tag", "text", "limit", "cursor"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryList {
    entries: Vec<MemoryRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct History {
    versions: Vec<MemoryRecord>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Restore {
    /// The version whose content comes back.
    version: u64,
    /// The version that the caller believes to be the current one.
    expected_version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Edit {
    content: String,
    /// The version that the caller has read.
    expected_version: u64,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let asked = Parameters::closed(&uri, &KNOWN)?;
    let size = PageSize::read(&asked)?;
    let place = match asked.get("scopeId") {
        Some(name) => Place::Named(name.to_owned()),
        None => Place::Anywhere,
    };
    let query = MemoryQuery {
        tag: asked.get("tag").map(str::to_owned),
        text: asked.get("text").map(str::to_owned),
        before: asked.read("cursor", "a cursor that a list gave", place_of)?,
        ..MemoryQuery::new(place, host.now(), size.and_one())
    };
    let mut entries = host.app.engine.memory().recall(&caller.scope, &query).await?;
    let next_cursor =
        size.cut(&mut entries).map(|last| URL_SAFE_NO_PAD.encode(query.place_of(last).to_string()));
    Answer::json(StatusCode::OK, &EntryList { entries, next_cursor })
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<MemoryId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let versions = living(&host, &caller, &id).await?;
    Answer::json(StatusCode::OK, &versions[0])
}

pub(super) async fn history(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<MemoryId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let versions = living(&host, &caller, &id).await?;
    Answer::json(StatusCode::OK, &History { versions })
}

/// Writes an old version's content anew. What stood there meanwhile stays in the history.
pub(super) async fn restore(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<MemoryId>,
    uri: Uri,
    Shaped(body): Shaped<Restore>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let versions = living(&host, &caller, &id).await?;
    let current = versions[0].version;
    let expected = body.expected_version.unwrap_or(current);
    let old = versions.into_iter().find(|old| old.version == body.version);
    let old = old.ok_or_else(|| Problem::invalid_at("version", "is no version of this entry"))?;
    if expected != current {
        return Err(moved().with("currentVersion", current));
    }
    amend(&host, &caller, MemoryRecord { expires_at: None, ..old }, expected).await
}

/// Writes another content over the version that the caller has read.
pub(super) async fn edit(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<MemoryId>,
    uri: Uri,
    Shaped(body): Shaped<Edit>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    if body.content.is_empty() || body.content.len() > MAX_MEMORY_BYTES {
        let allowed = format!("must have 1 to {MAX_MEMORY_BYTES} bytes");
        return Err(Problem::invalid_at("content", &allowed));
    }
    let mut versions = living(&host, &caller, &id).await?;
    let newest = versions.swap_remove(0);
    if body.expected_version != newest.version {
        return Err(moved().with("currentVersion", newest.version));
    }
    // What runs write is cleaned of credentials, too: it goes into prompts.
    let content = redact_text(&body.content);
    amend(&host, &caller, MemoryRecord { content, ..newest }, body.expected_version).await
}

/// Writes this as the newest version, as long as the expected one is the current.
async fn amend(
    host: &Host,
    caller: &Caller,
    new: MemoryRecord,
    expected: u64,
) -> Result<Answer, Problem> {
    let row = MemoryRow {
        id: new.id,
        expected,
        scope_id: new.scope_id,
        memory_ref: new.memory_ref,
        family: None,
        content: new.content,
        tags: new.tags,
        at: host.now(),
        expires_at: new.expires_at,
        author: MemoryAuthor { principal: Some(caller.principal()), ..MemoryAuthor::default() },
        sources: new.sources,
        due: None,
        absorbs: Vec::new(),
    };
    match host.app.engine.memory().amend(&caller.scope, row).await {
        Ok(record) => Answer::json(StatusCode::OK, &record),
        Err(StoreError::Moved { .. }) => Err(moved()),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn forget(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<MemoryId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    if host.app.engine.memory().forget(&caller.scope, &id).await? {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(Problem::no_such("memory entry"))
    }
}

/// The versions of an entry that has not expired, newest first; at least one.
async fn living(host: &Host, caller: &Caller, id: &MemoryId) -> Result<Vec<MemoryRecord>, Problem> {
    let versions = host.app.engine.memory().history(&caller.scope, id).await?;
    if versions.first().is_some_and(|newest| newest.lives_at(host.now())) {
        Ok(versions)
    } else {
        Err(Problem::no_such("memory entry"))
    }
}

fn moved() -> Problem {
    Problem::new(Code::MemoryConflict, "somebody changed the entry; read it and try again")
}

fn place_of(cursor: &str) -> Option<u64> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?.parse().ok()
}
