//! API keys over HTTP: made, listed without their secrets, revoked, rotated.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_protocol::{KeyId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::made::GoesOn;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::idempotency::Kept;
use crate::keys::{Caller, KeyError, KeyOrigin, KeyText, Known, NewKey};
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::scopes::{self, DELEGATE, RESPOND};

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
    /// The key that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    made_by: Option<KeyId>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyPage {
    key: KeyLine,
    goes_on: GoesOn,
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
        made_by: key.made_by.clone(),
        created_at: key.created_at,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whoami {
    key_id: KeyId,
    name: String,
    tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    /// Every scope, where none is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<BTreeSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// The holder of a key may know what it is.
pub(super) async fn whoami(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let known = host.app.keys.find(&caller.scope, &caller.key_id);
    Answer::json(
        StatusCode::OK,
        &Whoami {
            name: known.map(|known| known.key.name.clone()).unwrap_or_default(),
            key_id: caller.key_id,
            tenant: caller.scope.tenant.to_string(),
            workspace: caller.scope.workspace.as_ref().map(ToString::to_string),
            scopes: caller.scopes,
            expires_at: caller.expires_at,
        },
    )
}

/// A new key lives where its maker lives and no longer than it, may at most what its maker may, and votes as it does.
/// Without a list of scopes it may do all of that.
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
    let expires_at = body.expires_at.or(caller.expires_at);
    refuse_more(&caller, scopes.as_ref(), expires_at)?;
    let new = NewKey {
        name: body.name,
        scope: caller.scope.clone(),
        scopes,
        expires_at,
        made_by: Some(caller.key_id.clone()),
        votes_as: Some(caller.voter()),
    };
    let (id, text) = host.app.keys.create(new, host.now()).await.map_err(problem)?;
    caller.audit(&id, "key made");
    Ok(shown_once(&id, &text))
}

/// Nobody hands out more than it has.
fn refuse_more(
    caller: &Caller,
    scopes: Option<&BTreeSet<String>>,
    expires_at: Option<Timestamp>,
) -> Result<(), Problem> {
    match scopes {
        Some(given) => {
            if let Some(scope) = given.iter().find(|scope| !caller.may(scope)) {
                let message = format!("this key lacks the scope {scope} and cannot give it");
                let refusal = Problem::new(Code::Forbidden, message);
                return Err(refusal.with("scopeRequired", scope.as_str()));
            }
        }
        None if caller.scopes.is_some() => {
            let message = "only a key with every scope hands out every scope";
            return Err(Problem::new(Code::Forbidden, message));
        }
        None => {}
    }
    match caller.expires_at {
        Some(end) if expires_at.is_none_or(|given| given > end) => {
            let what = format!("must be no later than the end of the key that asks: {end}");
            Err(Problem::invalid_at("expiresAt", &what))
        }
        _ => Ok(()),
    }
}

/// One key, with what would go on without it.
pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<KeyId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let known = host.app.keys.find(&caller.scope, &id).ok_or_else(|| Problem::no_such("key"))?;
    let goes_on = GoesOn::of(&host, &known).await?;
    Answer::json(StatusCode::OK, &KeyPage { key: line(&known), goes_on })
}

/// At once: requests under the key fail and its open streams end. What it made goes on, unless that is to stop as well.
pub(super) async fn revoke(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<KeyId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Parameters::closed(&uri, &["cascade"])?;
    let cascade = query.read("cascade", "1", |text| (text == "1").then_some(()))?;
    let known = changeable(&host, &caller, &id)?;
    // The key first: what it cannot make any more need not be found.
    host.app.keys.revoke(&known.key, host.now()).await?;
    caller.audit(&id, "key revoked");
    if cascade.is_some() {
        GoesOn::of(&host, &known).await?.stop(&host, &known).await?;
        caller.audit(&id, "what the key made was stopped");
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The new key is there before the old one goes: a crash in between locks no one out. The caller gets the new one, so
/// that it must be able to make such a key, and to vote as it does.
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
    if caller.key_id != known.key.id {
        refuse_more(&caller, holder.scopes.as_ref(), holder.expires_at)?;
        refuse_vote(&caller, &holder)?;
    }
    let new = NewKey {
        name: known.key.name.clone(),
        votes_as: Some(holder.voter()),
        scope: holder.scope,
        scopes: holder.scopes,
        expires_at: known.key.expires_at,
        made_by: known.key.made_by.clone(),
    };
    let (id, text) = host.app.keys.create(new, host.now()).await.map_err(problem)?;
    caller.audit(&id, "key made");
    host.app.keys.revoke(&known.key, host.now()).await?;
    caller.audit(&known.key.id, "key revoked");
    Ok(shown_once(&id, &text))
}

/// Nobody gets another's vote who may not answer for others anyway.
fn refuse_vote(caller: &Caller, holder: &Caller) -> Result<(), Problem> {
    let is_own = !holder.may(RESPOND) || holder.voter() == caller.voter();
    if is_own || caller.may(DELEGATE) {
        return Ok(());
    }
    let message = "the key votes in another's name; let its holder rotate it, or revoke it";
    Err(Problem::new(Code::Forbidden, message).with("scopeRequired", DELEGATE))
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
    let shown = Answer::of(StatusCode::CREATED, &json!({ "id": id, "key": text.reveal() }));
    Kept::As(json!({ "id": id }).to_string()).mark(shown.into_response())
}

fn problem(error: KeyError) -> Problem {
    match error {
        KeyError::Store(error) => error.into(),
        KeyError::NoRandomness(_) => Problem::internal(&error),
    }
}
