//! Secrets over HTTP: stored, listed by name, removed. Their values never come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_core::{Provenance, SecretText};
use callboard_engine::{HeldSecret, Put, StoredSecret};
use callboard_protocol::{SecretName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent, parse};
use crate::keys::{Caller, of_tenant};
use crate::problem::Problem;
use crate::query::Parameters;

/// Room for a private key with its whole chain of certificates.
const LONGEST_VALUE: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PutSecret {
    value: SecretText,
    /// Hosts that tools of runs may send it to.
    audiences: Option<Vec<String>>,
    expires_at: Option<Timestamp>,
}

impl PutSecret {
    fn provenance(&self) -> Result<Option<Provenance>, Problem> {
        let Some(audiences) = self.audiences.clone() else {
            return match self.expires_at {
                Some(_) => Err(Problem::invalid_at("expiresAt", "is for secrets with audiences")),
                None => Ok(None),
            };
        };
        let provenance = Provenance { audiences, expires_at: self.expires_at };
        provenance.check().map_err(|why| Problem::invalid_at("audiences", &why))?;
        Ok(Some(provenance))
    }
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
    #[serde(flatten)]
    provenance: Option<Provenance>,
}

impl From<StoredSecret> for SecretLine {
    fn from(stored: StoredSecret) -> Self {
        let StoredSecret { name, created_at, updated_at, provenance } = stored;
        Self { name, created_at, updated_at, provenance }
    }
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    Answer::json(StatusCode::OK, &SecretList { secrets: seen(&host, &caller).await? })
}

/// What the caller's runs can name, by name: its workspace's own, and of the whole tenant what that does not replace.
async fn seen(host: &Host, caller: &Caller) -> Result<Vec<SecretLine>, Problem> {
    let mut seen: BTreeMap<SecretName, SecretLine> = BTreeMap::new();
    for place in caller.scope.shelves() {
        for stored in host.app.engine.secrets().secrets(&place).await? {
            seen.entry(stored.name.clone()).or_insert_with(|| stored.into());
        }
    }
    Ok(seen.into_values().collect())
}

pub(super) async fn put(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<SecretName>,
    uri: Uri,
    Sent(body): Sent,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let asked = read(&body)?;
    let provenance = asked.provenance()?;
    let value = asked.value;
    if !name.is_valid() {
        let what = "must have 1 to 128 letters, digits, dots, dashes or underscores, and begin with a letter or a digit";
        return Err(Problem::invalid_at("name", what));
    }
    if !(1..=LONGEST_VALUE).contains(&value.reveal().len()) {
        return Err(Problem::invalid_at("value", "must have 1 to 65536 bytes"));
    }
    let at = host.now();
    let secret = HeldSecret { value, provenance };
    let put = host.app.engine.secrets().put_secret(&caller.scope, &name, secret, at);
    let status = match put.await? {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    caller.audit(&name, "secret stored");
    Answer::json(status, &json!({ "name": name, "updatedAt": at }))
}

/// Refuses a value that somebody sent alone before a reader of JSON can repeat it.
fn read(body: &[u8]) -> Result<PutSecret, Problem> {
    if body.trim_ascii_start().starts_with(b"{") {
        parse(body)
    } else {
        Err(Problem::invalid("send a JSON object with the value"))
    }
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(name): Named<SecretName>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    if !host.app.engine.secrets().remove_secret(&caller.scope, &name).await? {
        let is_seen = seen(&host, &caller).await?.iter().any(|line| line.name == name);
        return Err(if is_seen { of_tenant("secret") } else { Problem::no_such("secret") });
    }
    caller.audit(&name, "secret removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}
