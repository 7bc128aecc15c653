//! Schedules over HTTP: made, listed, changed, removed, asked for their next fires, run at once.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_core::{HORIZON_TEXT, Priority, ScheduleError};
use callboard_engine::{
    BookError, MissedFire, NewSchedule, Overlap, Schedule, ScheduleChange, ScheduleFilter, Timing,
    TurnOutcome,
};
use callboard_protocol::{Object, RosterId, RunId, ScheduleId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::strict;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{MaybeKeyed, Named, Shaped};
use crate::idempotency::settle;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

const DEFAULT_COUNT: usize = 10;
const HIGHEST_COUNT: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateSchedule {
    workflow_id: WorkflowId,
    cron: Option<String>,
    timezone: Option<String>,
    at: Option<Timestamp>,
    roster_id: Option<RosterId>,
    inputs: Option<Object>,
    overlap: Option<Overlap>,
    missed_fire_policy: Option<MissedFire>,
    priority: Option<Priority>,
    enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChangeSchedule {
    cron: Option<String>,
    timezone: Option<String>,
    at: Option<Timestamp>,
    roster_id: Option<RosterId>,
    inputs: Option<Object>,
    overlap: Option<Overlap>,
    missed_fire_policy: Option<MissedFire>,
    priority: Option<Priority>,
    enabled: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleList {
    schedules: Vec<ScheduleDoc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleDoc {
    id: ScheduleId,
    workflow_id: WorkflowId,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roster_id: Option<RosterId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_id: Option<String>,
    /// Inputs are named, not shown: what they hold may be for the run alone.
    input_names: Vec<String>,
    overlap: Overlap,
    missed_fire_policy: MissedFire,
    #[serde(skip_serializing_if = "Priority::is_normal")]
    priority: Priority,
    enabled: bool,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_fire_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fire: Option<LastFire>,
    version: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastFire {
    scheduled_for: Timestamp,
    at: Timestamp,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) async fn create(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    Shaped(body): Shaped<CreateSchedule>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let timing = timing(body.cron, body.timezone, body.at)?
        .ok_or_else(|| Problem::invalid_at("cron", "is required, or at for a single run"))?;
    let inputs = body.inputs.unwrap_or_default();
    strict::inputs(&host, &caller, &body.workflow_id, &inputs, "inputs").await?;
    let new = NewSchedule {
        id: fresh_id(),
        owner: caller.owner(),
        mode: caller.scope.mode,
        workflow: body.workflow_id,
        roster_id: body.roster_id,
        timing,
        inputs,
        overlap: body.overlap.unwrap_or_default(),
        missed: body.missed_fire_policy.unwrap_or_default(),
        priority: body.priority.unwrap_or_default(),
        enabled: body.enabled.unwrap_or(true),
    };
    let schedule = host.app.scheduler.add(new).await.map_err(problem)?;
    caller.audit(&schedule.id, "schedule made");
    Ok(Answer::of(StatusCode::CREATED, &document(schedule)))
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["workflowId", "rosterId", "limit", "cursor"])?;
    let size = PageSize::read(&query)?;
    let filter = ScheduleFilter {
        workflow: query.get("workflowId").map(Into::into),
        roster_id: query.get("rosterId").map(Into::into),
        after: query.read("cursor", "a cursor that a list gave", id_of)?,
        limit: size.and_one(),
    };
    let mut found = host.app.scheduler.list(&caller.scope, &filter).await?;
    let next_cursor = size.cut(&mut found).map(|last| URL_SAFE_NO_PAD.encode(last.id.as_str()));
    let schedules = found.into_iter().map(document).collect();
    Ok(Answer::of(StatusCode::OK, &ScheduleList { schedules, next_cursor }))
}

/// In the order of their making.
pub(crate) fn fresh_id() -> ScheduleId {
    format!("sched_{}", uuid::Uuid::now_v7().simple()).into()
}

fn id_of(cursor: &str) -> Option<ScheduleId> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok().map(ScheduleId::from)
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<ScheduleId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let schedule = host.app.scheduler.find(&caller.scope, &id).await.map_err(problem)?;
    Ok(Answer::of(StatusCode::OK, &document(schedule)))
}

pub(super) async fn change(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<ScheduleId>,
    uri: Uri,
    Shaped(body): Shaped<ChangeSchedule>,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let (mut cron, mut timezone) = (body.cron, body.timezone);
    let schedule = host.app.scheduler.find(&caller.scope, &id).await.map_err(problem)?;
    if let Some(inputs) = &body.inputs {
        strict::inputs(&host, &caller, &schedule.workflow, inputs, "inputs").await?;
    }
    if body.at.is_none() && cron.is_some() != timezone.is_some() {
        // A zone alone is the same pattern on another clock, and a pattern alone keeps its clock.
        if let Timing::Cron { cron: known, timezone: zone } = schedule.state.timing {
            cron = cron.or(Some(known));
            timezone = timezone.or(Some(zone));
        }
    }
    let timing = timing(cron, timezone, body.at)?;
    let change = ScheduleChange {
        timing,
        roster_id: body.roster_id.map(Some),
        inputs: body.inputs,
        overlap: body.overlap,
        missed: body.missed_fire_policy,
        priority: body.priority,
        enabled: body.enabled,
    };
    let schedule = host.app.scheduler.change(&caller.scope, &id, change).await.map_err(problem)?;
    caller.audit(&id, "schedule changed");
    Ok(Answer::of(StatusCode::OK, &document(schedule)))
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<ScheduleId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    host.app.scheduler.remove(&caller.scope, &id).await.map_err(problem)?;
    caller.audit(&id, "schedule removed");
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn next(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<ScheduleId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &["count"])?;
    let in_range = |text: &str| text.parse().ok().filter(|c| (1..=HIGHEST_COUNT).contains(c));
    let count = query.read("count", "an integer from 1 to 1000", in_range)?;
    let schedule = host.app.scheduler.find(&caller.scope, &id).await.map_err(problem)?;
    let next = schedule.slots(host.now(), count.unwrap_or(DEFAULT_COUNT));
    let next = next.map_err(|error| problem(error.into()))?;
    let description = schedule.describe();
    Ok(Answer::of(StatusCode::OK, &json!({ "next": next, "description": description })))
}

pub(super) async fn run_now(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<ScheduleId>,
    MaybeKeyed(keyed): MaybeKeyed,
) -> Result<Response, Problem> {
    // Looked up first: what is not there is the caller's mistake, what goes wrong with the run is the engine's.
    let schedule = host.app.scheduler.find(&caller.scope, &id).await.map_err(problem)?;
    let describe = |done: &callboard_engine::Done| {
        Answer::of(StatusCode::ACCEPTED, &json!({ "runId": done.run }))
    };
    let answered = settle(keyed.as_ref(), describe, |remember| {
        host.app.scheduler.run_now(&schedule, remember)
    });
    let answered = answered.await?;
    caller.audit(&id, "schedule run by hand");
    Ok(answered)
}

/// Either a pattern or an instant.
fn timing(
    cron: Option<String>,
    timezone: Option<String>,
    at: Option<Timestamp>,
) -> Result<Option<Timing>, Problem> {
    match (cron, timezone, at) {
        (Some(cron), timezone, None) => {
            let timezone = timezone.unwrap_or_else(|| "UTC".to_owned());
            Ok(Some(Timing::Cron { cron, timezone }))
        }
        (None, None, Some(at)) => Ok(Some(Timing::Once { at })),
        (None, None, None) => Ok(None),
        (Some(_), _, Some(_)) => Err(Problem::invalid_at("at", "cannot be given with cron")),
        (None, Some(_), _) => Err(Problem::invalid_at("timezone", "belongs to a cron pattern")),
    }
}

fn document(schedule: Schedule) -> ScheduleDoc {
    let description = schedule.describe();
    let state = schedule.state;
    let (cron, timezone, at) = match state.timing {
        Timing::Cron { cron, timezone } => (Some(cron), Some(timezone), None),
        Timing::Once { at } => (None, None, Some(at)),
    };
    let last_fire = state.last_turn.map(|turn| {
        let (outcome, run_id, reason) = match turn.outcome {
            TurnOutcome::Fired { run } => ("fired", Some(run), None),
            TurnOutcome::Skipped { why } => ("skipped", None, Some(why)),
            TurnOutcome::Failed { why } => ("failed", None, Some(why)),
        };
        LastFire { scheduled_for: turn.slot, at: turn.at, outcome, run_id, reason }
    });
    ScheduleDoc {
        id: schedule.id,
        workflow_id: schedule.workflow,
        cron,
        timezone,
        at,
        roster_id: schedule.roster_id,
        trigger_id: schedule.trigger,
        input_names: schedule.inputs.keys().cloned().collect(),
        overlap: state.overlap,
        missed_fire_policy: state.missed,
        priority: state.priority,
        enabled: state.enabled,
        description,
        next_fire_at: state.next_slot.filter(|_| state.enabled),
        last_fire,
        version: schedule.version,
        created_at: state.created_at,
        updated_at: state.updated_at,
    }
}

pub(super) fn problem(error: BookError) -> Problem {
    match error {
        BookError::Unknown => Problem::no_such("schedule"),
        BookError::UnknownWorkflow(id) => {
            Problem::invalid_at("workflowId", &format!("no workflow {:?}", id.as_str()))
        }
        BookError::NotTheirs(why) => Problem::invalid_at("rosterId", why),
        BookError::Declared(_) => Problem::new(Code::ScheduleReserved, error.to_string()),
        BookError::Timing(error) => unfit(&error, "cron", "timezone"),
        BookError::Store(error) => error.into(),
    }
}

/// What is wrong with a pattern, said of the fields that hold it.
pub(super) fn unfit(error: &ScheduleError, pattern: &str, zone: &str) -> Problem {
    let message = error.to_string();
    match error {
        ScheduleError::Pattern(_) => Problem::invalid_at(pattern, &message),
        ScheduleError::Never => Problem::invalid_at(pattern, "has no time left to fire"),
        ScheduleError::TimeZone(_) => {
            Problem::new(Code::InvalidTimezone, format!("{zone}: {message}")).with("path", zone)
        }
        ScheduleError::BeyondHorizon => Problem::new(Code::ScheduleHorizonExceeded, message)
            .with("maxFutureHorizon", HORIZON_TEXT),
    }
}
