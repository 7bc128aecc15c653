//! `GET /v1/host/callboard/inbox`: what runs ask, longest waiting first.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_core::CastVote;
use callboard_engine::{InboxFilter, InboxItem, InboxPlace};
use callboard_protocol::{InterruptKind, NodeId, Object, Principal, RunId, Timestamp, WorkflowId};
use serde::Serialize;
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

const KNOWN: [&str; 6] = ["kind", "workflowId", "runId", "rosterId", "limit", "cursor"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inbox {
    interrupts: Vec<Asked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    run_id: RunId,
    workflow_id: WorkflowId,
    node_id: NodeId,
    interrupt_id: String,
    kind: InterruptKind,
    key: String,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<Object>,
    requested_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    requires_auth: bool,
    /// Whether an answer in the key's own name would count; who answers for people names them as `voter`.
    may_decide: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    votes: Vec<CastVote>,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &KNOWN)?;
    let size = PageSize::read(&query)?;
    let filter = InboxFilter {
        kind: query.read("kind", "the kind of an interrupt", InterruptKind::from_name)?,
        workflow: query.get("workflowId").map(Into::into),
        run: query.get("runId").map(Into::into),
        member: query.get("rosterId").map(Into::into),
        after: query.read("cursor", "a cursor that a list gave", place_of)?,
        limit: size.and_one(),
    };
    let mut items = host.app.engine.store().inbox(&caller.scope, &filter).await?;
    let next_cursor = size.cut(&mut items).map(|last| cursor_of(&last.place()));
    let interrupts = items.into_iter().map(|item| asked(item, &caller)).collect();
    Ok(Answer::of(StatusCode::OK, &Inbox { interrupts, next_cursor }))
}

fn asked(item: InboxItem, caller: &Caller) -> Asked {
    let interrupt = item.interrupt;
    // A key that the list names decides for itself, any other as whom it votes.
    let names = [caller.principal(), caller.voter()];
    let may = |name: &Principal| interrupt.may_decide(name.as_str(), |role| caller.has_role(role));
    Asked {
        may_decide: names.iter().any(may),
        run_id: item.run,
        workflow_id: item.workflow,
        node_id: interrupt.node,
        interrupt_id: interrupt.id,
        kind: interrupt.kind,
        key: interrupt.key,
        data: interrupt.data,
        resume_schema: interrupt.resume_schema,
        requested_at: interrupt.requested_at,
        expires_at: interrupt.expires_at,
        requires_auth: interrupt.requires_auth,
        votes: interrupt.votes,
    }
}

/// Opaque to clients, so that it can become something else.
fn cursor_of(place: &InboxPlace) -> String {
    URL_SAFE_NO_PAD.encode(format!("{} {}", place.requested_at.as_millis(), place.interrupt_id))
}

fn place_of(cursor: &str) -> Option<InboxPlace> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (millis, id) = text.split_once(' ')?;
    let requested_at = Timestamp::from_millis(millis.parse().ok()?);
    Some(InboxPlace { requested_at, interrupt_id: id.to_owned() })
}
