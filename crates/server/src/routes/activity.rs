//! `GET …/roster/{rosterId}/activity`: what a member did, what comes next, what waits for an answer, what it cost.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::{
    Filter, InboxFilter, InboxItem, Listed, Schedule, ScheduleFilter, Spent, Subscription,
};
use callboard_protocol::{
    AgentRosterEntry, InterruptKind, NodeId, RosterId, RunId, ScheduleId, SubscriptionState,
    Timestamp, TriggerSource, WorkflowId,
};
use serde::Serialize;

use super::budget::{self, Today};
use super::list::{cursor_of, run_of};
use super::roster;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

const KNOWN: [&str; 3] = ["since", "limit", "cursor"];
/// A night and the day around it.
const DEFAULT_SPAN_MS: i64 = 86_400_000;
/// Questions shown here; the inbox shows all.
const MOST_WAITING: usize = 50;
/// A member with more schedules than this is looked at in their list.
const MOST_SCHEDULES: usize = 200;
/// As many as fit a page.
const MOST_NEXT: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Activity {
    member: AgentRosterEntry,
    since: Timestamp,
    runs: Vec<Listed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// How its day stands.
    today: Today,
    /// When its schedules fire next, soonest first.
    next: Vec<NextFire>,
    /// What brings it work from outside, whether it takes anything now or not.
    triggers: Vec<Feed>,
    /// Longest waiting first, whenever their runs began.
    waiting: Vec<Waiting>,
    spent: Spent,
}

/// The next slot of a schedule that fires for the member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NextFire {
    schedule_id: ScheduleId,
    workflow_id: WorkflowId,
    at: Timestamp,
    /// In plain English.
    description: String,
}

/// A subscription that fires for the member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Feed {
    subscription_id: String,
    workflow_id: WorkflowId,
    source: TriggerSource,
    state: SubscriptionState,
}

/// That something is asked; what is asked stands in the inbox.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    run_id: RunId,
    workflow_id: WorkflowId,
    node_id: NodeId,
    kind: InterruptKind,
    requested_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl From<InboxItem> for Waiting {
    fn from(item: InboxItem) -> Self {
        Self {
            run_id: item.run,
            workflow_id: item.workflow,
            node_id: item.interrupt.node,
            kind: item.interrupt.kind,
            requested_at: item.interrupt.requested_at,
            expires_at: item.interrupt.expires_at,
        }
    }
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &KNOWN)?;
    let size = PageSize::read(&query)?;
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let a_day_ago = Timestamp::from_millis(host.now().as_millis() - DEFAULT_SPAN_MS);
    let since = query.read("since", "an RFC 3339 time", time)?.unwrap_or(a_day_ago);
    let member = roster::find(&host, &caller, &id).await?.entry;
    let filter = Filter {
        member: Some(id.clone()),
        since: Some(since),
        before: query.read("cursor", "a cursor that a list gave", run_of)?,
        limit: size.and_one(),
        ..Filter::default()
    };
    let engine = &host.app.engine;
    let mut runs = engine.store().list(&caller.scope, &filter).await?;
    let next_cursor = size.cut(&mut runs).map(|last| cursor_of(&last.run_id));
    let asked =
        InboxFilter { member: Some(id.clone()), limit: MOST_WAITING, ..InboxFilter::default() };
    let waiting = engine.store().inbox(&caller.scope, &asked).await?;
    let waiting = waiting.into_iter().map(Waiting::from).collect();
    let spent = engine.store().spent(&caller.scope, &id, since).await?;
    let today = budget::today(&host, &caller, &id).await?;
    let first_for = first_for(&host, &caller, &member).await?;
    let next = next_fires(&host, &caller, &member, &first_for).await?;
    let triggers = feeds(&host, &caller, &member, &first_for).await?;
    let activity =
        Activity { member, since, runs, next_cursor, today, next, triggers, waiting, spent };
    Answer::json(StatusCode::OK, &activity)
}

/// The workflows that fire for the member where nobody is named.
async fn first_for(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
) -> Result<Vec<WorkflowId>, Problem> {
    let mut first_for = Vec::new();
    for workflow in &member.workflows {
        let owners = host.app.engine.roster().owners_of(&caller.scope, workflow).await?;
        let first = owners.into_iter().find(|owner| owner.entry.enabled);
        if first.is_some_and(|first| first.entry.roster_id == member.roster_id) {
            first_for.push(workflow.clone());
        }
    }
    Ok(first_for)
}

/// Subscriptions that name the member, and those of its workflows that name nobody and would fire for it. The member's
/// own queue is not from outside; it is shown where it takes nothing.
async fn feeds(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
    first_for: &[WorkflowId],
) -> Result<Vec<Feed>, Problem> {
    let mut subscriptions = host.app.triggers.list(&caller.scope).await?;
    subscriptions.retain(|known| {
        let is_of_member = match &known.roster_id {
            Some(named) => *named == member.roster_id,
            None => first_for.contains(&known.workflow),
        };
        is_of_member && (known.state != SubscriptionState::Active || !known.is_work_queue())
    });
    let feed = |known: Subscription| Feed {
        subscription_id: known.id,
        workflow_id: known.workflow,
        source: known.source,
        state: known.state,
    };
    Ok(subscriptions.into_iter().map(feed).collect())
}

/// Schedules that name the member, and those of its workflows that name nobody and would fire for it.
async fn next_fires(
    host: &Host,
    caller: &Caller,
    member: &AgentRosterEntry,
    first_for: &[WorkflowId],
) -> Result<Vec<NextFire>, Problem> {
    if !member.enabled {
        return Ok(Vec::new());
    }
    let limit = MOST_SCHEDULES;
    let named =
        ScheduleFilter { roster_id: Some(member.roster_id.clone()), limit, ..Default::default() };
    let mut filters = vec![named];
    filters.extend(first_for.iter().map(|workflow| {
        let workflow = Some(workflow.clone());
        ScheduleFilter { workflow, limit, ..Default::default() }
    }));
    let mut next = Vec::new();
    for filter in filters {
        let schedules = host.app.scheduler.list(&caller.scope, &filter).await?;
        let is_of_member = |schedule: &Schedule| match &schedule.roster_id {
            Some(id) => filter.roster_id.as_ref() == Some(id),
            None => filter.roster_id.is_none(),
        };
        next.extend(schedules.into_iter().filter(is_of_member).filter_map(|schedule| {
            let at = schedule.state.next_slot.filter(|_| schedule.state.enabled)?;
            let description = schedule.describe();
            let (schedule_id, workflow_id) = (schedule.id, schedule.workflow);
            Some(NextFire { schedule_id, workflow_id, at, description })
        }));
    }
    next.sort_by(|a, b| (a.at, &a.schedule_id).cmp(&(b.at, &b.schedule_id)));
    next.truncate(MOST_NEXT);
    Ok(next)
}
