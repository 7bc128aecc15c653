//! `GET /v1/runs/{runId}`: the run as it stands, or nothing for those who know it already.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use callboard_protocol::{InterruptKind, Object, RunId, RunStatus};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::conditional;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::scopes::RESPOND;
use crate::token::Link;

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let unknown = || Problem::no_such("run");
    if headers.contains_key(header::IF_NONE_MATCH) {
        // The head is enough to know that nothing changed; the fold is not made for that.
        let found = host.app.engine.store().find(&caller.scope, &run).await?.ok_or_else(unknown)?;
        let tag = tag(found.head.version);
        if conditional::is_known(&headers, &tag) {
            return Ok(conditional::not_modified(&tag));
        }
    }
    let seen = host.app.engine.snapshot(&caller.scope, &run).await?.ok_or_else(unknown)?;
    let version = seen.version;
    let body = match seen.status {
        // The holder of the link can answer.
        RunStatus::WaitingExternal if caller.may(RESPOND) => {
            with_link(&host, &caller, &run, seen.json).await?
        }
        _ => seen.json,
    };
    Ok(conditional::tagged(Answer { status: StatusCode::OK, body }, &tag(version)))
}

/// The sender of the event that a run waits for needs a link to send it to.
async fn with_link(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    json: String,
) -> Result<String, Problem> {
    let interrupts = host.app.engine.interrupts(&caller.scope, run).await?;
    let waiting = interrupts.iter().find(|open| open.kind == InterruptKind::ExternalEvent);
    let Some(open) = waiting else { return Ok(json) };
    let link = Link::to(run, open, host.now());
    let Some(token) = host.app.links.sign(&caller.scope.realm(), link).await? else {
        return Ok(json);
    };
    let mut snapshot: Object =
        serde_json::from_str(&json).map_err(|error| Problem::internal(&error))?;
    let callback = format!("/v1/interrupts/{token}");
    snapshot
        .insert("interrupt".into(), json!({ "interruptToken": token, "callbackUrl": callback }));
    Ok(Value::Object(snapshot).to_string())
}

/// The log only grows, and everything shown is its fold: its length names what is shown.
fn tag(version: u64) -> String {
    format!("\"v{version}\"")
}
