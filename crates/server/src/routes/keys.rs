//! API keys over HTTP: made, listed without their secrets, revoked, rotated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::Scope;
use callboard_protocol::{KeyId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::made::GoesOn;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::idempotency::Kept;
use crate::keys::{Caller, KeyError, KeyOrigin, KeyText, Known, NewKey, RoleTable};
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::scopes::{self, DELEGATE, MANAGE_TENANTS, RESPOND};
use crate::v2::id::is_tenant;

const LONGEST_NAME: usize = 200;
/// A month: whoever needs longer to bring a new key where the old one is has two keys, and says so.
const LONGEST_GRACE: u64 = 30 * 24 * 60 * 60;
/// Names another tenant, for the operator.
pub(super) const OF_TENANT: &str = "tenant";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateKey {
    name: String,
    scopes: Option<Vec<String>>,
    roles: Option<Vec<String>>,
    tenant: Option<String>,
    workspace: Option<String>,
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
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    roles: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Timestamp>,
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
    let query = Parameters::closed(&uri, &[OF_TENANT])?;
    let keys = host.app.keys.list(&place_of(&caller, query.get(OF_TENANT), None)?);
    let used = host.app.keys.last_used(&keys).await?;
    let keys = keys.iter().map(|known| line(known, &used)).collect();
    Answer::json(StatusCode::OK, &KeyList { keys })
}

/// Where a caller acts that names a tenant and a workspace: its own, or any if it is the operator's.
pub(super) fn place_of(
    caller: &Caller,
    tenant: Option<&str>,
    workspace: Option<&str>,
) -> Result<Scope, Problem> {
    let mut place = caller.scope.clone();
    if let Some(tenant) = tenant.filter(|tenant| *tenant != caller.scope.tenant.as_str()) {
        if !caller.is_operator() {
            let message = "only a key of the tenant default with the scope tenants:manage acts for other tenants";
            let refusal = Problem::new(Code::Forbidden, message);
            return Err(refusal.with("scopeRequired", MANAGE_TENANTS));
        }
        check_id("tenant", tenant)?;
        place.tenant = tenant.into();
    }
    if let Some(workspace) = workspace {
        check_id("workspace", workspace)?;
        if caller.scope.workspace.as_ref().is_some_and(|own| own.as_str() != workspace) {
            let message = "this key belongs to another workspace";
            return Err(Problem::new(Code::WorkspaceMembershipRequired, message));
        }
        place.workspace = Some(workspace.into());
    }
    Ok(place)
}

fn check_id(path: &str, name: &str) -> Result<(), Problem> {
    if is_tenant(name) {
        return Ok(());
    }
    Err(Problem::invalid_at(path, "must have 1 to 128 letters, digits, and . _ ~ -"))
}

fn line(known: &Known, used: &BTreeMap<KeyId, Timestamp>) -> KeyLine {
    let key = &known.key;
    KeyLine {
        id: key.id.clone(),
        name: key.name.clone(),
        scopes: known.grant.scopes.clone(),
        roles: key.roles.clone(),
        workspace: key.workspace.as_ref().map(ToString::to_string),
        origin: match known.origin {
            KeyOrigin::Configured => "configured",
            KeyOrigin::Stored => "stored",
            KeyOrigin::Issuer => "issuer",
        },
        issuer: key.issuer.clone(),
        last_used_at: used.get(&key.id).copied(),
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
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    roles: BTreeSet<String>,
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
            roles: caller.roles,
            expires_at: caller.expires_at,
        },
    )
}

/// A new key lives where its maker lives unless that is the operator's, no longer than it, may at most what its maker
/// may, and votes as it does. Without a list of scopes or roles it may do all of that.
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
    let scope = place_of(&caller, body.tenant.as_deref(), body.workspace.as_deref())?;
    let is_own = scope.tenant == caller.scope.tenant;
    let table = host.app.keys.roles();
    let (scopes, roles) = match (body.scopes, body.roles) {
        (None, None) if is_own => (caller.own_scopes.clone(), caller.roles.clone()),
        // What its roles are called elsewhere is nothing that it has.
        (None, None) => (caller.scopes.clone(), BTreeSet::new()),
        (scopes, roles) => {
            let roles = known_roles(&table, &scope, roles)?;
            (Some(known_scopes(scopes)?), roles)
        }
    };
    let expires_at = body.expires_at.or(caller.expires_at);
    let grant = table.grant(&scope.realm(), scopes.as_ref(), &roles);
    refuse_more(&caller, grant.scopes.as_ref(), expires_at)?;
    let new = NewKey {
        name: body.name,
        scope,
        scopes,
        roles,
        expires_at,
        made_by: Some(caller.key_id.clone()),
        votes_as: is_own.then(|| caller.voter()),
    };
    let (id, text) = host.app.keys.create(new, host.now()).await.map_err(problem)?;
    caller.audit(&id, "key made");
    Ok(shown_once(&id, &text, None))
}

fn known_scopes(names: Option<Vec<String>>) -> Result<BTreeSet<String>, Problem> {
    let Some(names) = names else { return Ok(BTreeSet::new()) };
    if names.is_empty() {
        return Err(Problem::invalid_at("scopes", "must name at least one scope"));
    }
    let known = scopes::known(names.iter().map(String::as_str));
    known.map_err(|unknown| Problem::invalid_at("scopes", &unknown.to_string()))
}

fn known_roles(
    table: &RoleTable,
    scope: &Scope,
    names: Option<Vec<String>>,
) -> Result<BTreeSet<String>, Problem> {
    let Some(names) = names else { return Ok(BTreeSet::new()) };
    let known = table.names(&scope.realm());
    if names.is_empty() {
        return Err(Problem::invalid_at("roles", "must name at least one role"));
    }
    if let Some(name) = names.iter().find(|name| !known.contains(*name)) {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Problem::invalid_at("roles", &format!("no role {name:?}; there are {known}")));
    }
    Ok(names.into_iter().collect())
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
    let query = Parameters::closed(&uri, &[OF_TENANT])?;
    let place = place_of(&caller, query.get(OF_TENANT), None)?;
    let known = host.app.keys.find(&place, &id).ok_or_else(|| Problem::no_such("key"))?;
    let goes_on = GoesOn::of(&host, &known).await?;
    let used = host.app.keys.last_used(std::slice::from_ref(&known)).await?;
    Answer::json(StatusCode::OK, &KeyPage { key: line(&known, &used), goes_on })
}

/// At once: requests under the key fail and its open streams end. What it made goes on, unless that is to stop as well.
pub(super) async fn revoke(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<KeyId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Parameters::closed(&uri, &["cascade", OF_TENANT])?;
    let cascade = query.read("cascade", "1", |text| (text == "1").then_some(()))?;
    let known = changeable(&host, &place_of(&caller, query.get(OF_TENANT), None)?, &id)?;
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
    let query = Parameters::closed(&uri, &["graceSeconds", OF_TENANT])?;
    let whole = |text: &str| text.parse().ok().filter(|seconds| *seconds <= LONGEST_GRACE);
    let grace = query.read("graceSeconds", "a whole number, 0 to 2592000", whole)?.unwrap_or(0);
    let known = changeable(&host, &place_of(&caller, query.get(OF_TENANT), None)?, &id)?;
    if known.origin == KeyOrigin::Issuer {
        let message = "this is somebody who signs in elsewhere and has no key to replace";
        return Err(Problem::new(Code::KeyReserved, message));
    }
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
        scopes: known.key.scopes.clone(),
        roles: known.key.roles.clone(),
        expires_at: known.key.expires_at,
        made_by: known.key.made_by.clone(),
    };
    let (id, text) = host.app.keys.create(new, host.now()).await.map_err(problem)?;
    caller.audit(&id, "key made");
    if grace == 0 {
        host.app.keys.revoke(&known.key, host.now()).await?;
        caller.audit(&known.key.id, "key revoked");
        return Ok(shown_once(&id, &text, None));
    }
    let end = host.now().plus(Duration::from_secs(grace));
    host.app.keys.end_at(&known.key, end).await?;
    caller.audit(&known.key.id, "key replaced, it ends after a grace");
    let end = known.key.expires_at.map_or(end, |before| before.min(end));
    Ok(shown_once(&id, &text, Some(end)))
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

fn changeable(host: &Host, place: &Scope, id: &KeyId) -> Result<Known, Problem> {
    let known = host.app.keys.find(place, id).ok_or_else(|| Problem::no_such("key"))?;
    match known.origin {
        KeyOrigin::Stored | KeyOrigin::Issuer => Ok(known),
        KeyOrigin::Configured => Err(Problem::new(
            Code::KeyReserved,
            "this key is configured; change the host's configuration",
        )),
    }
}

/// A repetition of the request learns which key it made, but the secret is kept nowhere.
fn shown_once(id: &KeyId, text: &KeyText, previous_ends_at: Option<Timestamp>) -> Response {
    let mut body = json!({ "id": id, "key": text.reveal() });
    if let Some(at) = previous_ends_at {
        body["previousEndsAt"] = json!(at);
    }
    let shown = Answer::of(StatusCode::CREATED, &body);
    Kept::As(json!({ "id": id }).to_string()).mark(shown.into_response())
}

fn problem(error: KeyError) -> Problem {
    match error {
        KeyError::Store(error) => error.into(),
        KeyError::NoRandomness(_) => Problem::internal(&error),
    }
}
