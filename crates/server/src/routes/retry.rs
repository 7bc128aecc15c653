//! `POST …/runs/{runId}/retry` and `POST …/runs:retry`: going on with runs that have ended.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_core::RetryRefusal;
use callboard_engine::{Done, DryRun, Filter, RetriedOnce, RetryDefinition, RetryOrder};
use callboard_protocol::{
    BulkItemError, NodeId, Object, RetriedRun, RetriedRuns, RetryItem, RetryOutcome, RetryRun,
    RetryRuns, RunId, RunStatus,
};
use futures_util::{StreamExt, stream};

use super::list::{cursor_of, run_of};
use super::strict;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Sent, Shaped, parse};
use crate::gate::missing_scope;
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::problem::{Code, Problem};

const MOST_RUNS: u32 = 100;

/// Retries of one request at a time: enough to share the store's commits, few enough to leave room for others.
const AT_ONCE: usize = 8;

/// When a caller that came too early may ask again.
const LOOK_AGAIN_SECONDS: u64 = 5;

pub(super) async fn retry(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Sent(body): Sent,
) -> Result<Response, Problem> {
    read_too(&caller)?;
    let is_empty = body.iter().all(u8::is_ascii_whitespace);
    let body = if is_empty { RetryRun::default() } else { parse(&body)? };
    let inputs = body.inputs.unwrap_or_default();
    let order = order(&caller, run, (body.latest, Some(inputs.clone())), body.from);
    host.starts.admit(&caller, None, host.now())?;
    let planned = host.app.engine.plan_retry(&caller.scope, order).await?;
    strict::known_inputs(planned.workflow_definition(), &inputs, "inputs")?;
    let (source, from_seq, nodes) =
        (planned.source.clone(), planned.from_seq, planned.nodes.clone());
    let describe = move |done: &Done| {
        let retried = RetriedRun {
            run_id: done.run.clone(),
            source_run_id: source.clone(),
            from_seq,
            nodes: nodes.clone(),
            status: done.status,
            events_url: format!("/v1/runs/{}/events", done.run),
        };
        Answer::of(StatusCode::CREATED, &retried)
    };
    let retried =
        settle(keyed.as_ref(), describe, |remember| host.app.engine.retry(planned, remember));
    retried.await
}

/// Answers for each run that is found, newest first; the request succeeds even if none can be retried.
pub(super) async fn retry_many(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(body): Shaped<RetryRuns>,
) -> Result<Answer, Problem> {
    read_too(&caller)?;
    let status = body.status.unwrap_or(RunStatus::Failed);
    if !matches!(status, RunStatus::Failed | RunStatus::Cancelled) {
        return Err(Problem::invalid_at("status", "must be failed or cancelled"));
    }
    let limit = body.limit.unwrap_or(MOST_RUNS);
    if !(1..=MOST_RUNS).contains(&limit) {
        return Err(Problem::invalid_at("limit", "must be 1 to 100"));
    }
    let limit = limit as usize;
    let cursor = |cursor: &String| {
        run_of(cursor).ok_or_else(|| Problem::invalid_at("cursor", "is no cursor that was given"))
    };
    let filter = Filter {
        run: None,
        status: Some(status),
        workflow: body.workflow_id.as_deref().map(Into::into),
        agent: body.agent_id.clone(),
        member: body.roster_id.as_deref().map(Into::into),
        tag: body.tag.clone(),
        since: body.since,
        until: body.until,
        before: body.cursor.as_ref().map(cursor).transpose()?,
        limit: limit + 1,
    };
    let mut found = host.app.engine.store().list(&caller.scope, &filter).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor_of(&last.run_id));
    let dry_run = if body.dry_run == Some(true) { DryRun::Yes } else { DryRun::No };
    let terms = (body.latest, body.inputs);
    let items = found.into_iter().map(|listed| {
        let order = order(&caller, listed.run_id, terms.clone(), None);
        retry_one(&host, &caller, order, dry_run)
    });
    let results = stream::iter(items).buffered(AT_ONCE).collect().await;
    let retried = RetriedRuns { dry_run: dry_run == DryRun::Yes, results, next_cursor };
    Ok(Answer::of(StatusCode::OK, &retried))
}

/// A caller that retries a run learns what is in it.
fn read_too(caller: &Caller) -> Result<(), Problem> {
    if caller.may("runs:read") { Ok(()) } else { Err(missing_scope("runs:read")) }
}

fn order(
    caller: &Caller,
    source: RunId,
    (latest, inputs): (Option<bool>, Option<Object>),
    from: Option<NodeId>,
) -> RetryOrder {
    RetryOrder {
        source,
        from,
        definition: match latest {
            Some(true) => RetryDefinition::Newest,
            Some(false) | None => RetryDefinition::Pinned,
        },
        inputs: inputs.unwrap_or_default(),
        owner: caller.owner(),
        key_mode: caller.scope.mode,
    }
}

async fn retry_one(host: &Host, caller: &Caller, order: RetryOrder, dry_run: DryRun) -> RetryItem {
    let run_id = order.source.clone();
    let item = |outcome| RetryItem {
        run_id: run_id.clone(),
        outcome,
        retry_run_id: None,
        nodes: Vec::new(),
        error: None,
    };
    match host.app.engine.retry_once(&caller.scope, order, dry_run).await {
        Ok(RetriedOnce::Planned(planned)) => {
            RetryItem { nodes: planned.nodes, ..item(RetryOutcome::Planned) }
        }
        Ok(RetriedOnce::Made { run, nodes, .. }) => {
            RetryItem { retry_run_id: Some(run), nodes, ..item(RetryOutcome::Retried) }
        }
        Ok(RetriedOnce::Before(run)) => {
            RetryItem { retry_run_id: Some(run), ..item(RetryOutcome::AlreadyRetried) }
        }
        Err(error) => {
            let problem = Problem::from(error);
            let code = problem.code.name().to_owned();
            let error = Some(BulkItemError { code, message: problem.message });
            RetryItem { error, ..item(RetryOutcome::Refused) }
        }
    }
}

impl From<&RetryRefusal> for Problem {
    fn from(refusal: &RetryRefusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            // It may well end soon, so the answer is not kept under an idempotency key.
            RetryRefusal::NotEnded => {
                Self::new(Code::RunNotEnded, message).retry_after(LOOK_AGAIN_SECONDS)
            }
            RetryRefusal::Completed => Self::new(Code::RunCompleted, message),
            RetryRefusal::UnknownNode { node }
            | RetryRefusal::NotReached { node }
            | RetryRefusal::NodeGone { node } => {
                Self::new(Code::RetryNodeInvalid, message).with("nodeId", node.as_str())
            }
            RetryRefusal::NothingFailed { .. } => Self::new(Code::RetryNothingFailed, message),
        }
    }
}
