//! `GET /v1/runs/{runId}`: the run as it stands, or nothing for those who know it already.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use callboard_protocol::{Dialect, InterruptKind, Object, RunId, RunStatus};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::conditional;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::scopes::RESPOND;
use crate::token::Link;
use crate::v2::edge::Speaks;
use crate::v2::snapshot;

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    Speaks(dialect): Speaks,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let unknown = || Problem::no_such("run");
    if headers.contains_key(header::IF_NONE_MATCH) {
        // The head is enough to know that nothing changed; the fold is not made for that.
        let found = host.app.engine.store().find(&caller.scope, &run).await?.ok_or_else(unknown)?;
        let tag = tag(found.version, dialect);
        if conditional::is_known(&headers, &tag) {
            return Ok(conditional::not_modified(&tag));
        }
    }
    let seen = host.app.engine.snapshot(&caller.scope, &run).await?.ok_or_else(unknown)?;
    let version = seen.version;
    // The holder of the link can answer.
    let way = match seen.status {
        RunStatus::WaitingExternal if caller.may(RESPOND) => {
            way_out(&host, &caller, &run, dialect).await?
        }
        _ => None,
    };
    let body = match (dialect, way) {
        (Dialect::V1, None) => seen.json,
        (Dialect::V1, Some(way)) => with_way(object(&seen.json)?, way),
        (Dialect::V2, way) => {
            let told = snapshot::of_seen(&seen)?;
            match way {
                Some(way) => with_way(told, way),
                None => Value::Object(told).to_string(),
            }
        }
    };
    Ok(conditional::tagged(Answer { status: StatusCode::OK, body }, &tag(version, dialect)))
}

fn object(json: &str) -> Result<Object, Problem> {
    serde_json::from_str(json).map_err(|error| Problem::internal(&error))
}

fn with_way(mut snapshot: Object, way: Value) -> String {
    snapshot.insert("interrupt".into(), way);
    Value::Object(snapshot).to_string()
}

/// The sender of the event that a run waits for needs a link to send it to.
async fn way_out(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    dialect: Dialect,
) -> Result<Option<Value>, Problem> {
    let interrupts = host.app.engine.interrupts(&caller.scope, run).await?;
    let waiting = interrupts.iter().find(|open| open.kind == InterruptKind::ExternalEvent);
    let Some(open) = waiting else { return Ok(None) };
    let link = Link::to(run, open, host.now());
    let token = host.app.links.sign(&caller.scope.realm(), link, dialect).await?;
    Ok(token.map(|token| {
        let version = match dialect {
            Dialect::V1 => "/v1",
            Dialect::V2 => "",
        };
        let callback = format!("{version}/interrupts/{token}");
        json!({ "interruptToken": token, "callbackUrl": callback })
    }))
}

/// The log only grows, and everything shown is its fold: its length names what is shown.
fn tag(version: u64, dialect: Dialect) -> String {
    match dialect {
        Dialect::V1 => format!("\"v{version}\""),
        Dialect::V2 => format!("\"2v{version}\""),
    }
}
