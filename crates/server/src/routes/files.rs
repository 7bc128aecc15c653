//! The files of a workspace, which runs begin with: listed, read in any version, written, removed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::Response;
use callboard_engine::{Condition, FileChange, FileDraft, FileRecord, Scope, check_path, etag};
use callboard_protocol::{WorkspaceFile, WorkspaceFileCreate};
use serde::Serialize;

use crate::answer::Answer;
use crate::app::Host;
use crate::conditional;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::idempotency::{Keyed, settle};
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

/// How often a write is decided anew because another writer was faster. Files have few writers.
const TRIES: usize = 8;

#[derive(Serialize)]
struct FileList {
    files: Vec<WorkspaceFile>,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let asked = Parameters::closed(&uri, &["prefix"])?;
    listed(&host, &caller.scope, asked.get("prefix").unwrap_or_default()).await
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(path): Named<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked = Parameters::closed(&uri, &["version"])?;
    let version = asked.read("version", "a whole number above zero", whole)?;
    let file = found(&host, &caller.scope, &path, version).await?;
    let tag = etag(file.version);
    if conditional::is_known(&headers, &tag) {
        return Ok(conditional::not_modified(&tag));
    }
    Ok(conditional::tagged(Answer::json(StatusCode::OK, &file.shown())?, &tag))
}

pub(super) async fn write(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(path): Named<String>,
    MaybeKeyed(keyed): MaybeKeyed,
    headers: HeaderMap,
    uri: Uri,
    Shaped(body): Shaped<WorkspaceFileCreate>,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    put(&host, &caller, keyed.as_ref(), &path, body, &condition(&headers)).await
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(path): Named<String>,
    MaybeKeyed(keyed): MaybeKeyed,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    delete(&host, &caller, keyed.as_ref(), &path, &condition(&headers)).await
}

pub async fn listed(host: &Host, owner: &Scope, prefix: &str) -> Result<Answer, Problem> {
    let files = host.app.engine.files().list_files(owner, prefix).await?;
    let files = files.into_iter().map(FileRecord::shown).collect();
    Answer::json(StatusCode::OK, &FileList { files })
}

/// A file of another owner and none look the same.
pub async fn found(
    host: &Host,
    owner: &Scope,
    path: &str,
    version: Option<u64>,
) -> Result<FileRecord, Problem> {
    check_path(path)?;
    let found = host.app.engine.files().find_file(owner, path, version).await?;
    found.filter(|file| !file.is_removed).ok_or_else(|| Problem::no_such("file"))
}

pub async fn put(
    host: &Host,
    caller: &Caller,
    keyed: Option<&Keyed>,
    path: &str,
    body: WorkspaceFileCreate,
    condition: &Condition,
) -> Result<Response, Problem> {
    let mut draft = FileDraft::new(path, &body.content);
    draft.content_type = body.content_type.unwrap_or(draft.content_type);
    let mut tries = TRIES;
    loop {
        let whose = (caller.owner(), caller.scope.mode);
        let change = host.app.engine.prepare_file(whose, draft.clone(), condition).await?;
        let file = change.shown();
        let answer = Answer::json(StatusCode::OK, &file)?;
        tries -= 1;
        match commit(host, caller, keyed, change, answer).await {
            Err(problem) if problem.code == Code::WorkspaceConflict && tries > 0 => {}
            settled => return Ok(conditional::tagged(settled?, &file.etag)),
        }
    }
}

pub async fn delete(
    host: &Host,
    caller: &Caller,
    keyed: Option<&Keyed>,
    path: &str,
    condition: &Condition,
) -> Result<Response, Problem> {
    let whose = (caller.owner(), caller.scope.mode);
    let change = host.app.engine.prepare_removal(whose, path, condition).await?;
    let nothing = Answer { status: StatusCode::NO_CONTENT, body: String::new() };
    commit(host, caller, keyed, change, nothing).await
}

/// Makes a change, unless the file has moved on since it was decided.
async fn commit(
    host: &Host,
    caller: &Caller,
    keyed: Option<&Keyed>,
    change: FileChange,
    answer: Answer,
) -> Result<Response, Problem> {
    let WorkspaceFile { path, version, .. } = change.shown();
    let act = |remember| host.app.engine.change_file(change, remember);
    let settled = settle(keyed, move |_| answer.clone(), act).await;
    let response = settled.map_err(|problem| match problem.if_moved(Code::WorkspaceConflict) {
        // A faster caller made the version that this would have been.
        moved if moved.code == Code::WorkspaceConflict => moved.with("currentVersion", version),
        problem => problem,
    })?;
    caller.audit(format_args!("{path} {version}"), "file changed");
    Ok(response)
}

/// What the caller takes the file for. A tag that is none of ours is no version of it.
fn condition(headers: &HeaderMap) -> Condition {
    let tags = |name: HeaderName| -> Option<Vec<String>> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let tags = values.flat_map(|value| value.split(',')).map(|tag| tag.trim().to_owned());
        Some(tags.collect::<Vec<_>>()).filter(|tags| !tags.is_empty())
    };
    let is_any = |tags: &Vec<String>| tags.iter().any(|tag| tag == "*");
    match (tags(IF_MATCH), tags(IF_NONE_MATCH)) {
        (Some(tags), _) if is_any(&tags) => Condition::Exists,
        (Some(tags), _) => Condition::At(tags.iter().filter_map(|tag| version_of(tag)).collect()),
        (None, Some(tags)) if is_any(&tags) => Condition::Absent,
        (None, _) => Condition::Always,
    }
}

fn version_of(tag: &str) -> Option<u64> {
    let version = tag.strip_prefix("\"v")?.strip_suffix('"')?.parse().ok()?;
    // One version has one tag.
    (etag(version) == tag).then_some(version)
}

fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|version| *version > 0)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn conditions_are_read_from_their_headers() {
        let at = |versions: &[u64]| Condition::At(versions.to_vec());
        for (name, text, expected) in [
            (IF_MATCH, r#""v3""#, at(&[3])),
            (IF_MATCH, r#""v3", "v5""#, at(&[3, 5])),
            (IF_MATCH, "*", Condition::Exists),
            // A weak tag matches nothing here, nor does one that nobody gave.
            (IF_MATCH, r#"W/"v3""#, at(&[])),
            (IF_MATCH, r#""definitely-stale""#, at(&[])),
            (IF_MATCH, "v3", at(&[])),
            (IF_MATCH, r#""v03""#, at(&[])),
            (IF_NONE_MATCH, "*", Condition::Absent),
            (IF_NONE_MATCH, r#""v3""#, Condition::Always),
        ] {
            let headers = [(name, HeaderValue::from_static(text))].into_iter().collect();
            assert_eq!(condition(&headers), expected, "{text}");
        }
        assert_eq!(condition(&HeaderMap::new()), Condition::Always);
    }
}
