//! API keys over HTTP: made, listed without their secrets, revoked, rotated.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_protocol::{KeyId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::idempotency::InsteadOfBody;
use crate::keys::{Caller, KeyError, KeyOrigin, KeyText, Known, NewKey};
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::scopes;

const LONGEST_NAME: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateKey {
    name: String,
    scopes: Option<Vec<String>>,
    expires_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct KeyList {
    keys: Vec<KeyLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyLine {
    id: KeyId,
    name: String,
    /// Every scope, where none is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<BTreeSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    origin: &'static str,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let keys = host.app.keys.list(&caller.scope).iter().map(line).collect();
    Answer::json(StatusCode::OK, &KeyList { keys })
}

fn line(known: &Known) -> KeyLine {
    let key = &known.key;
    KeyLine {
        id: key.id.clone(),
        name: key.name.clone(),
        scopes: key.scopes.clone(),
        workspace: key.workspace.as_ref().map(ToString::to_string),
        origin: match known.origin {
            KeyOrigin::Configured => "configured",
            KeyOrigin::Stored => "stored",
        },
        created_at: key.created_at,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
    }
}

/// A new key lives where its maker lives. Without a list of scopes it may do what its maker may.
pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    Shaped(body): Shaped<CreateKey>,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    if !(1..=LONGEST_NAME).contains(&body.name.chars().count()) {
        return Err(Problem::invalid_at("name", "must have 1 to 200 characters"));
    }
    if body.expires_at.is_some_and(|expires_at| expires_at <= host.now()) {
        return Err(Problem::invalid_at("expiresAt", "must be in the future"));
    }
    let scopes = match body.scopes {
        None => caller.scopes.clone(),
        Some(names) if names.is_empty() => {
            return Err(Problem::invalid_at("scopes", "must name at least one scope"));
        }
        Some(names) => {
            let known = scopes::known(names.iter().map(String::as_str));
            Some(known.map_err(|unknown| Problem::invalid_at("scopes", &unknown.to_string()))?)
        }
    };
    let (scope, expires_at) = (caller.scope.clone(), body.expires_at);
    let new = NewKey { name: body.name, scope, scopes, expires_at };
    let (id, text) = host.app.keys.create(new, host.now()).await.map_err(problem)?;
    caller.audit(&id, "key made");
    Ok(shown_once(&id, &text))
}

/// At once: requests under the key fail and its open streams end.
pub(super) async fn revoke(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<KeyId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let known = changeable(&host, &caller, &id)?;
    host.app.keys.revoke(&known.key, host.now()).await?;
    caller.audit(&id, "key revoked");
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The new key is there before the old one goes: dying in between locks nobody out.
pub(super) async fn rotate(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<KeyId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let known = changeable(&host, &caller, &id)?;
    // A key that counts no more has nothing to hand on.
    let holder = host.app.keys.admit(&known, host.now()).map_err(|_| Problem::no_such("key"))?;
    let new = NewKey {
        name: known.key.name.clone(),
        scope: holder.scope,
        scopes: holder.scopes,
        expires_at: known.key.expires_at,
    };
    let (id, text) = host.app.keys.create(new, host.now()).await.map_err(problem)?;
    caller.audit(&id, "key made");
    host.app.keys.revoke(&known.key, host.now()).await?;
    caller.audit(&known.key.id, "key revoked");
    Ok(shown_once(&id, &text))
}

fn changeable(host: &Host, caller: &Caller, id: &KeyId) -> Result<Known, Problem> {
    let known = host.app.keys.find(&caller.scope, id).ok_or_else(|| Problem::no_such("key"))?;
    match known.origin {
        KeyOrigin::Stored => Ok(known),
        KeyOrigin::Configured => Err(Problem::new(
            Code::KeyReserved,
            "this key is configured; change the host's configuration",
        )),
    }
}

/// A repetition of the request learns which key it made, but the secret is kept nowhere.
fn shown_once(id: &KeyId, text: &KeyText) -> Response {
    let mut response =
        Answer::of(StatusCode::CREATED, &json!({ "id": id, "key": text.reveal() })).into_response();
    response.extensions_mut().insert(InsteadOfBody(json!({ "id": id }).to_string()));
    response
}

fn problem(error: KeyError) -> Problem {
    match error {
        KeyError::Store(error) => error.into(),
        KeyError::NoRandomness(_) => Problem::internal(&error),
    }
}
