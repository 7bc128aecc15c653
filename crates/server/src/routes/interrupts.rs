//! Answering the questions that nodes ask: with a key, or with a signed link.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_core::{InterruptView, Refusal, Resolution, Via};
use callboard_engine::{EngineError, Scope, SignCallbacks};
use callboard_protocol::{
    Dialect, InterruptKind, NodeId, Object, Principal, RunId, RunStatus, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::scopes::DELEGATE;
use crate::token::{Claim, Intent, Link};
use crate::v2::edge::Speaks;

/// `{resumeValue}`, or the flat answer that older clients send.
pub(super) type AnswerBody = Object;

/// What an answer came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    run_id: RunId,
    node_id: NodeId,
    status: RunStatus,
}

/// `GET /v1/interrupts/{token}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inspected {
    kind: callboard_protocol::InterruptKind,
    key: String,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<Object>,
    requested_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Debug, Deserialize)]
pub(super) struct Place {
    #[serde(rename = "runId")]
    run: String,
    #[serde(rename = "nodeId")]
    node: String,
}

pub(super) async fn resolve(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path(place): Path<Place>,
    MaybeKeyed(keyed): MaybeKeyed,
    speaks: Speaks,
    Shaped(body): Shaped<AnswerBody>,
) -> Result<Response, Problem> {
    let (run, node) = (RunId::from(place.run), NodeId::from(place.node));
    let value = answer_of(body)?;
    let open = open_question(&host, &caller, &run, &node).await?;
    let via = match value.get("voter") {
        Some(_) if caller.may(DELEGATE) => Via::Delegate,
        _ => via(&caller, open.as_ref()),
    };
    let by = Some(voter(&caller, open.as_ref()));
    let resolution = Resolution { node: node.clone(), value, by, via };
    let engine = &host.app.engine;
    let describe = move |done: &callboard_engine::Done| answered(&done.run, &node, done.status);
    let settled = settle(keyed.as_ref(), describe, |remember| {
        engine.resolve(&caller.scope, &run, resolution, remember)
    });
    match settled.await {
        Err(problem) if problem.code == Code::RunTerminal => {
            Err(too_late(&host, &caller.scope, (&run, speaks), problem).await?)
        }
        settled => settled,
    }
}

/// What a node asks, if it asks. That a run does not exist is found when it is answered.
async fn open_question(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    node: &NodeId,
) -> Result<Option<InterruptView>, Problem> {
    match host.app.engine.interrupts(&caller.scope, run).await {
        Ok(open) => Ok(open.into_iter().find(|open| open.node == *node)),
        Err(EngineError::UnknownRun(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// In whose name an answer counts. A key that a key made votes as its maker, so that nobody gets more votes by making
/// keys; only a question that names the key itself among its approvers takes it for somebody.
fn voter(caller: &Caller, open: Option<&InterruptView>) -> Principal {
    let own = caller.principal();
    let counts = |open: &&InterruptView| open.kind == InterruptKind::Approval;
    let as_maker = open.filter(counts).is_some_and(|open| !open.names(own.as_str()));
    if as_maker { caller.voter() } else { own }
}

/// As whom a caller answers who speaks for nobody else: with a role that the question names, or with its key alone.
fn via(caller: &Caller, open: Option<&InterruptView>) -> Via {
    let refs = open.and_then(|open| open.data["approverRoleRefs"].as_array());
    let mut held = refs.into_iter().flatten().filter_map(Value::as_str);
    let held = held.find(|role| caller.has_role(role));
    held.map_or(Via::Key, |role| Via::Holder { role: role.to_owned() })
}

pub(super) async fn inspect(
    State(host): State<Arc<Host>>,
    Named(token): Named<String>,
    speaks: Speaks,
) -> Result<Response, Problem> {
    let (link, scope) = open_link(&host, &token, speaks).await?;
    let interrupts = host.app.engine.interrupts(&scope, &link.run_id).await?;
    let open = interrupts.into_iter().find(|open| open.id == link.interrupt_id);
    let open = open
        .ok_or_else(|| Problem::new(Code::InterruptAlreadyResolved, "the interrupt is settled"))?;
    let inspected = Inspected {
        kind: open.kind,
        key: open.key.clone(),
        resume_schema: open.resume_schema.clone(),
        requested_at: open.requested_at,
        data: open.into_protocol_data(),
        expires_at: link.expires_at,
    };
    Ok(Answer::of(StatusCode::OK, &inspected).into_response())
}

pub(super) async fn answer(
    State(host): State<Arc<Host>>,
    Named(token): Named<String>,
    speaks: Speaks,
    Shaped(body): Shaped<AnswerBody>,
) -> Result<Response, Problem> {
    let (link, scope) = open_link(&host, &token, speaks).await?;
    if link.intent == Intent::Inspect {
        return Err(Problem::new(Code::Forbidden, "this link may look, not answer"));
    }
    let resolution = Resolution {
        node: link.node_id.clone(),
        value: answer_of(body)?,
        by: Some(format!("link:{}", link.interrupt_id).into()),
        via: Via::Token { interrupt_id: link.interrupt_id.clone() },
    };
    let done = host.app.engine.resolve(&scope, &link.run_id, resolution, None).await;
    if let (Err(EngineError::Refused(Refusal::Ended { status })), Dialect::V2) = (&done, speaks.0) {
        let ended = Refusal::Ended { status: *status }.into();
        return Err(too_late(&host, &scope, (&link.run_id, speaks), ended).await?);
    }
    let done = done.map_err(|error| match error {
        // To the holder of a link, a run that has ended is a question that is settled.
        EngineError::Refused(Refusal::Ended { .. } | Refusal::NoInterrupt { .. }) => {
            Problem::new(Code::InterruptAlreadyResolved, "the interrupt is settled")
        }
        other => other.into(),
    })?;
    Ok(answered(&done.run, &link.node_id, done.status).into_response())
}

/// Reads a link and finds whose run it speaks of.
pub(crate) async fn open_link(
    host: &Host,
    token: &str,
    Speaks(dialect): Speaks,
) -> Result<(Link, Scope), Problem> {
    let unknown = || match dialect {
        Dialect::V2 if Claim::is_of_second(token) => {
            Problem::new(Code::InterruptTokenInvalid, "this host has not signed the token")
        }
        Dialect::V1 | Dialect::V2 => Problem::new(Code::InterruptNotFound, "no such interrupt"),
    };
    let claim = Claim::of(token).ok_or_else(unknown)?;
    // Whose secret must have signed it is known only with the run.
    let scope = host.app.engine.scope_of(claim.run()).await?.ok_or_else(unknown)?;
    let link = host.app.links.verify(&scope.realm(), claim).await?.ok_or_else(unknown)?;
    if link.expires_at <= host.now() {
        return Err(Problem::new(Code::InterruptExpired, "the link has expired"));
    }
    Ok((link, scope))
}

/// `POST /v1/host/callboard/interrupt-links/rotate`.
pub(super) async fn rotate_links(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let generation = host.app.links.rotate(&caller.whole_realm()?).await?;
    Ok(Answer::of(StatusCode::OK, &json!({ "generation": generation })))
}

/// `GET /v1/host/callboard/callback-secret`.
pub(super) async fn callback_secret(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let secret = host.app.links.secret(&caller.scope).await?;
    let shown = json!({ "secret": secret.reveal(), "secretFingerprint": secret.fingerprint() });
    Ok(Answer::of(StatusCode::OK, &shown))
}

/// `{resumeValue}` and nothing beside it, or the answer's own fields.
fn answer_of(mut body: Object) -> Result<Value, Problem> {
    let Some(value) = body.remove("resumeValue") else { return Ok(Value::Object(body)) };
    match body.keys().next() {
        None => Ok(value),
        Some(name) => Err(Problem::invalid_at(name, "nothing may stand beside resumeValue")),
    }
}

fn answered(run: &RunId, node: &NodeId, status: RunStatus) -> Answer {
    Answer::of(StatusCode::OK, &Answered { run_id: run.clone(), node_id: node.clone(), status })
}

/// What an answer to a run that has ended gets. One that was cancelled has no answer, and a caller that raced it has
/// lost: a conflict. One that was cancelled with its parent was never theirs to race for: its questions are gone.
async fn too_late(
    host: &Host,
    scope: &Scope,
    (run, Speaks(dialect)): (&RunId, Speaks),
    problem: Problem,
) -> Result<Problem, Problem> {
    let is_cancelled =
        problem.details.get("runStatus").and_then(Value::as_str) == Some("cancelled");
    if !is_cancelled {
        return Ok(Problem { code: Code::InterruptAlreadyResolved, ..problem });
    }
    let seen = host.app.engine.snapshot(scope, run).await?;
    let shown: Option<Value> = seen.and_then(|seen| serde_json::from_str(&seen.json).ok());
    let is_child = shown.is_some_and(|shown| shown.get("parentRunId").is_some());
    Ok(match dialect {
        _ if is_child => Problem { code: Code::InterruptGone, ..problem },
        Dialect::V1 => problem,
        Dialect::V2 => Problem { code: Code::InterruptAlreadyResolved, ..problem },
    })
}
