//! Members' queues of work: put something before a member, take it, finish it, move it back.
//!
//! An item that comes to the top of the queue is delivered over a subscription of the source `queue` that stands for
//! the member's queue, once for that move. A member or a queue that is paused takes nothing: its items wait, and begin
//! by themselves once it is resumed.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{
    Done, Order, StoredMember, StoredWork, Subscription, Waits, WorkChange, WorkMove,
};
use callboard_protocol::{
    AddWork, AgentRosterEntry, MoveWork, Object, RosterId, TriggerSource, WorkItem, WorkState,
    WorkflowId,
};
use serde::{Deserialize, Serialize};

use super::roster::{self, Fired};
use super::strict;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::idempotency::{Keyed, settle};
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

const LONGEST_TITLE: usize = 200;

#[derive(Serialize)]
struct WorkList {
    work: Vec<WorkItem>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    roster_id: RosterId,
    work_id: String,
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["state"])?;
    let state = query.read("state", "todo, doing or done", WorkState::from_name)?;
    roster::find(&host, &caller, &id).await?;
    let stored = host.app.queues.work().work(&caller.scope, &id).await?;
    let mut work = Vec::new();
    for StoredWork { item, .. } in stored {
        if state.is_some_and(|state| state != item.state) {
            continue;
        }
        let run_status = match &item.run_id {
            Some(run) => host.app.engine.store().find(&caller.scope, run).await?,
            None => None,
        };
        work.push(WorkItem { run_status: run_status.map(|found| found.status), ..item });
    }
    Ok(Answer::of(StatusCode::OK, &WorkList { work }))
}

pub(super) async fn add(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<AddWork>,
) -> Result<Response, Problem> {
    let member = roster::find(&host, &caller, &id).await?;
    if !(1..=LONGEST_TITLE).contains(&body.title.chars().count()) {
        return Err(Problem::invalid_at("title", "must have 1 to 200 characters"));
    }
    let workflow_id = workflow(&member, body.workflow_id)?;
    strict::inputs(&host, &caller, &workflow_id, &body.inputs, "inputs").await?;
    let change = new_item(&host, &caller, &member.entry, body.title, workflow_id, body.inputs);
    put_first(&host, &caller, &member.entry, keyed, change, StatusCode::CREATED).await
}

pub fn new_item(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
    title: String,
    workflow_id: WorkflowId,
    inputs: Object,
) -> WorkChange {
    let at = host.now();
    let item = WorkItem {
        work_id: format!("work_{}", uuid::Uuid::now_v7().simple()),
        roster_id: member.roster_id.clone(),
        title,
        workflow_id,
        inputs,
        state: WorkState::Todo,
        claimed_by: None,
        reason: None,
        moves: 1,
        run_id: None,
        run_status: None,
        created_at: at,
        updated_at: at,
    };
    WorkChange { scope: caller.scope.clone(), item, expected: 0, waits: None }
}

/// The workflow that an item is for: the one named, or the only one that the member owns.
fn workflow(member: &StoredMember, named: Option<WorkflowId>) -> Result<WorkflowId, Problem> {
    let owned = &member.entry.workflows;
    match (named, owned.as_slice()) {
        (Some(named), _) if owned.contains(&named) => Ok(named),
        (Some(named), _) => {
            let what = "the member does not own the workflow";
            Err(Problem::new(Code::NotInPortfolio, what).with("workflowId", named.as_str()))
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(Problem::invalid_at("workflowId", "the member owns no workflow")),
        (None, _) => Err(Problem::invalid_at("workflowId", "must say which of the member's")),
    }
}

pub(super) async fn move_item(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path(place): Path<Place>,
    MaybeKeyed(keyed): MaybeKeyed,
    Shaped(body): Shaped<MoveWork>,
) -> Result<Response, Problem> {
    let member = roster::find(&host, &caller, &place.roster_id).await?.entry;
    let scope = caller.scope.clone();
    let found = host.app.queues.work().work_item(&scope, &place.roster_id, &place.work_id).await?;
    let StoredWork { mut item, version } = found.ok_or_else(|| Problem::no_such("work item"))?;
    let has_fired = item.run_id.is_some();
    if item.state == body.state && (body.state != WorkState::Todo || has_fired) {
        let what = format!("the item is {} already", item.state.as_str());
        return Err(Problem::new(Code::WorkConflict, what));
    }
    item.updated_at = host.now();
    // Back at the top it may fire again; what has not fired yet fires for the move that it is at.
    item.moves += u32::from(body.state == WorkState::Todo && item.state != WorkState::Todo);
    item.state = body.state;
    item.reason = None;
    match body.state {
        WorkState::Todo => (item.claimed_by, item.run_id) = (None, None),
        WorkState::Doing => item.claimed_by = Some(caller.principal().to_string()),
        WorkState::Done => {}
    }
    let change = WorkChange { scope, item, expected: version, waits: None };
    match body.state {
        WorkState::Todo => put_first(&host, &caller, &member, keyed, change, StatusCode::OK).await,
        WorkState::Doing | WorkState::Done => keep(&host, change, StatusCode::OK).await,
    }
}

/// Puts an item at the top of the queue, where its member takes it at once unless it is paused.
async fn put_first(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
    keyed: Option<Keyed>,
    change: WorkChange,
    status: StatusCode,
) -> Result<Response, Problem> {
    let (order, moved_item) =
        match prepare(host, caller, member, &change, TriggerSource::Queue).await {
            Ok(prepared) => prepared,
            Err(problem) if problem.code == Code::MemberPaused => {
                let change = waiting(caller, change, "the member is paused");
                return keep(host, change, status).await;
            }
            Err(problem) if problem.code == Code::NotInPortfolio => {
                return Err(Problem { code: Code::WorkConflict, ..problem });
            }
            Err(problem) => return Err(problem),
        };
    if !host.app.triggers.takes_work(&moved_item.queue).await? {
        return keep(host, waiting(caller, change, "the queue is paused"), status).await;
    }
    let taken = moved_item.change.item.clone();
    let describe = move |done: &Done| {
        Answer::of(status, &WorkItem { run_id: Some(done.run.clone()), ..taken.clone() })
    };
    let fired = settle(keyed.as_ref(), describe, |remember| {
        host.app.engine.fire_work(moved_item, order, remember)
    });
    fired.await.map_err(|problem| problem.if_moved(Code::WorkConflict))
}

/// An item that begins once this is over.
fn waiting(caller: &Caller, mut change: WorkChange, why: &str) -> WorkChange {
    change.item.reason = Some(why.to_owned());
    change.waits = Some(Waits { owner: caller.owner(), mode: caller.scope.mode });
    change
}

/// The run that an item asks for, and the item as its member takes it.
pub async fn prepare(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
    change: &WorkChange,
    source: TriggerSource,
) -> Result<(Order, WorkMove), Problem> {
    let workflow = change.item.workflow_id.clone();
    let mode = caller.scope.mode;
    let queue = Subscription::work_queue(member, mode, workflow.clone(), host.now());
    let inputs = change.item.inputs.clone();
    let fire = Fired { workflow, inputs, source, over: Some(queue.id.clone()) };
    let order = roster::order(host, caller, &member.roster_id, fire).await?;
    Ok((order, WorkMove::new(change.clone(), queue)))
}

async fn keep(host: &Host, change: WorkChange, status: StatusCode) -> Result<Response, Problem> {
    let answer = Answer::of(status, &change.item);
    let put = host.app.queues.work().put_work(change, None).await;
    put.map_err(|error| Problem::from(error).if_moved(Code::WorkConflict))?;
    Ok(answer.into_response())
}
