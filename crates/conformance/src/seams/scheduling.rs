//! `POST /v1/host/sample/scheduling/tick`: slots come due, and the host's own scheduler looks at them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use callboard_engine::{MissedFire, NewSchedule, Overlap, Timing};
use callboard_protocol::{Object, Timestamp};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped, fresh};
use serde::Deserialize;
use serde_json::json;

/// The fixture that the suite runs everywhere.
const WORKFLOW: &str = "conformance-noop";
const MINUTE_MS: i64 = 60_000;
/// More windows than a suite asks for, and few enough to go through one by one.
const MOST_TICKS: u32 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Play {
    scenario: Scenario,
    missed_ticks: Option<u32>,
    workflow_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    SingleTick,
    MissedWindow,
}

/// A schedule that fires every minute is rehearsed with slots that lie behind it; the running loop sees the next.
pub(super) async fn scheduling(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(play): Shaped<Play>,
) -> Result<Answer, Problem> {
    let missed = play.missed_ticks.unwrap_or(3).min(MOST_TICKS);
    let new = NewSchedule {
        priority: callboard_core::Priority::Normal,
        id: fresh("sched_").into(),
        owner: caller.owner(),
        mode: caller.scope.mode,
        workflow: play.workflow_id.unwrap_or_else(|| WORKFLOW.to_owned()).into(),
        roster_id: None,
        timing: Timing::Cron { cron: "* * * * *".to_owned(), timezone: "UTC".to_owned() },
        inputs: Object::new(),
        overlap: Overlap::Allow,
        missed: MissedFire::FireOnce,
        enabled: true,
    };
    let unfit = |error: callboard_engine::BookError| Problem::invalid(error.to_string());
    let scheduler = &host.app.scheduler;
    let mut schedule = scheduler.add(new).await.map_err(unfit)?;
    let now = host.now();
    let next = schedule.state.next_slot.unwrap_or(now);
    let before =
        |slots: u32| Timestamp::from_millis(next.as_millis() - i64::from(slots) * MINUTE_MS);
    // Either somebody has looked all the time, or nobody has for so many slots.
    let (slot, awake_since) = match play.scenario {
        Scenario::SingleTick => (before(1), before(1)),
        Scenario::MissedWindow => (before(1 + missed), now),
    };
    schedule.state.next_slot = Some(slot);
    // Two hosts look at the same moment.
    let (one, other) = tokio::join!(
        scheduler.rehearse(&schedule, now, awake_since),
        scheduler.rehearse(&schedule, now, awake_since),
    );
    let fired = one?.into_iter().chain(other?).collect::<Vec<_>>();
    scheduler.remove(&caller.scope, &schedule.id).await.map_err(unfit)?;
    Ok(Answer::of(StatusCode::OK, &json!({ "runsFired": fired.len(), "runIds": fired })))
}
