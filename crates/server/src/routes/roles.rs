//! Roles over HTTP: names for sets of scopes, listed, set and removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{MOST_ROLES, PutRole, Realm, Role};
use callboard_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use super::keys::{OF_TENANT, place_of};
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Shaped};
use crate::keys::{Caller, EVERY_SCOPE, RoleError, RoleOrigin, RoleTable, check_role};
use crate::problem::{Code, Problem};
use crate::query::Parameters;

const LONGEST_DESCRIPTION: usize = 400;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RoleBody {
    scopes: Vec<String>,
    description: Option<String>,
}

#[derive(Serialize)]
struct RoleList {
    roles: Vec<RoleLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RoleLine {
    name: String,
    scopes: BTreeSet<String>,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &[OF_TENANT])?;
    let realm = place_of(&caller, query.get(OF_TENANT), None)?.realm();
    let table = host.app.keys.roles();
    let roles = table.names(&realm).iter().filter_map(|name| line(&table, &realm, name)).collect();
    Answer::json(StatusCode::OK, &RoleList { roles })
}

fn line(table: &RoleTable, realm: &Realm, name: &str) -> Option<RoleLine> {
    let (origin, scopes) = table.find(realm, name)?;
    let stored = table.stored(realm, name).filter(|_| origin == RoleOrigin::Stored);
    Some(RoleLine {
        name: name.to_owned(),
        scopes,
        origin: match origin {
            RoleOrigin::Protocol => "protocol",
            RoleOrigin::Configured => "configured",
            RoleOrigin::Stored => "stored",
        },
        description: stored.and_then(|role| role.description.clone()),
        updated_at: stored.map(|role| role.updated_at),
    })
}

/// Whoever has the role has what it stands for from now on. Nobody puts more into it than the caller has.
pub(super) async fn put(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<String>,
    uri: Uri,
    Shaped(body): Shaped<RoleBody>,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &[OF_TENANT])?;
    let realm = changeable(&host, &caller, &query, &name)?;
    let scopes = check_role(&name, body.scopes.iter().map(String::as_str));
    let scopes = scopes.map_err(|error| match error {
        RoleError::Name => Problem::invalid_at("roleName", &error.to_string()),
        RoleError::BuiltIn => reserved(),
        RoleError::Empty | RoleError::Scope(_) => Problem::invalid_at("scopes", &error.to_string()),
    })?;
    if body.description.as_ref().is_some_and(|text| text.chars().count() > LONGEST_DESCRIPTION) {
        return Err(Problem::invalid_at("description", "must have at most 400 characters"));
    }
    let lacks = |scope: &&String| match scope.as_str() {
        EVERY_SCOPE => caller.scopes.is_some(),
        scope => !caller.may(scope),
    };
    if let Some(scope) = scopes.iter().find(lacks) {
        let message = format!("this key lacks the scope {scope} and cannot put it into a role");
        let refusal = Problem::new(Code::Forbidden, message);
        return Err(refusal.with("scopeRequired", scope.as_str()));
    }
    let (description, updated_at) = (body.description, host.now());
    let role = Role { name: name.clone(), description, scopes, updated_at };
    let status = match host.app.keys.put_role(&realm, &role).await? {
        PutRole::Created => StatusCode::CREATED,
        PutRole::Replaced => StatusCode::OK,
        PutRole::TooMany => {
            let message = format!("the tenant has {MOST_ROLES} roles already; remove one");
            return Err(Problem::new(Code::RoleReserved, message));
        }
    };
    caller.audit(&name, "role set");
    let table = host.app.keys.roles();
    Answer::json(status, &line(&table, &realm, &name))
}

/// Whoever has the role has nothing by it from now on.
pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Parameters::closed(&uri, &[OF_TENANT])?;
    let realm = changeable(&host, &caller, &query, &name)?;
    if !host.app.keys.remove_role(&realm, &name).await? {
        return Err(Problem::no_such("role"));
    }
    caller.audit(&name, "role removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn changeable(
    host: &Host,
    caller: &Caller,
    query: &Parameters,
    name: &str,
) -> Result<Realm, Problem> {
    caller.whole_realm()?;
    let realm = place_of(caller, query.get(OF_TENANT), None)?.realm();
    match host.app.keys.roles().find(&realm, name) {
        Some((RoleOrigin::Protocol | RoleOrigin::Configured, _)) => Err(reserved()),
        Some((RoleOrigin::Stored, _)) | None => Ok(realm),
    }
}

fn reserved() -> Problem {
    Problem::new(Code::RoleReserved, "the role is the protocol's or the host's configuration's")
}
