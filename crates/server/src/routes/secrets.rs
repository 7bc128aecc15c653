//! Secrets over HTTP: stored, listed by name, removed. Their values never come back.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_core::SecretText;
use callboard_engine::{Put, StoredSecret};
use callboard_protocol::{SecretName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent, parse};
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

/// Room for a private key with its whole chain of certificates.
const LONGEST_VALUE: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PutSecret {
    value: SecretText,
}

#[derive(Serialize)]
struct SecretList {
    secrets: Vec<SecretLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SecretLine {
    name: SecretName,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<StoredSecret> for SecretLine {
    fn from(stored: StoredSecret) -> Self {
        let StoredSecret { name, created_at, updated_at } = stored;
        Self { name, created_at, updated_at }
    }
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let (tenant, mode) = (&caller.scope.tenant, caller.scope.mode);
    let stored = host.app.engine.secrets().secrets(tenant, mode).await?;
    let secrets = stored.into_iter().map(SecretLine::from).collect();
    Answer::json(StatusCode::OK, &SecretList { secrets })
}

pub(super) async fn put(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<SecretName>,
    uri: Uri,
    Sent(body): Sent,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let PutSecret { value } = read(&body)?;
    if !name.is_valid() {
        let what = "must have 1 to 128 letters, digits, dots, dashes or underscores, and begin with a letter or a digit";
        return Err(Problem::invalid_at("name", what));
    }
    if !(1..=LONGEST_VALUE).contains(&value.reveal().len()) {
        return Err(Problem::invalid_at("value", "must have 1 to 65536 bytes"));
    }
    let at = host.now();
    let (tenant, mode) = (&caller.scope.tenant, caller.scope.mode);
    let put = host.app.engine.secrets().put_secret(tenant, mode, &name, value, at);
    let status = match put.await? {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    caller.audit(&name, "secret stored");
    Answer::json(status, &json!({ "name": name, "updatedAt": at }))
}

/// Refuses a value that somebody sent alone before a reader of JSON can repeat it.
fn read(body: &[u8]) -> Result<PutSecret, Problem> {
    match body.trim_ascii_start().starts_with(b"{") {
        true => parse(body),
        false => Err(Problem::invalid("send a JSON object with the value")),
    }
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<SecretName>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let (tenant, mode) = (&caller.scope.tenant, caller.scope.mode);
    if !host.app.engine.secrets().remove_secret(tenant, mode, &name).await? {
        return Err(Problem::no_such("secret"));
    }
    caller.audit(&name, "secret removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}
