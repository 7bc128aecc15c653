//! What a schedule is, and how its slots follow each other.

use serde::{Deserialize, Serialize};

use callboard_core::{Cron, Priority, ScheduleError};
use callboard_protocol::{
    Object, Owner, Principal, RosterId, RunId, ScheduleId, Timestamp, WorkflowId,
};

use crate::store::Scope;

/// One schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub id: ScheduleId,
    /// Where it lives, and its runs.
    pub place: Scope,
    pub workflow: WorkflowId,
    /// The member whose work it is.
    pub roster_id: Option<RosterId>,
    /// The trigger of the workflow's own definition that declares it.
    pub trigger: Option<String>,
    /// What each run is started with. Sealed at rest: it may hold what only the run may see.
    pub inputs: Object,
    /// The version that was read; it grows by one with every change.
    pub version: u64,
    /// When it is due next; none while it is paused or done.
    pub wake_at: Option<Timestamp>,
    pub state: ScheduleState,
}

/// What a schedule keeps besides what it is found by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleState {
    pub timing: Timing,
    #[serde(default)]
    pub overlap: Overlap,
    #[serde(default)]
    pub missed: MissedFire,
    /// Of its runs.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    pub enabled: bool,
    /// Who registered it, and in whose name its runs act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The next slot that has not been decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_slot: Option<Timestamp>,
    /// A slot that waits for the last run to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Timestamp>,
    /// No slot up to this one fires, or fires again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_through: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<LastTurn>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Timing {
    Cron { cron: String, timezone: String },
    Once { at: Timestamp },
}

/// What a slot does while the run of an earlier one is still active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlap {
    /// It passes.
    #[default]
    Skip,
    /// It fires all the same.
    Allow,
    /// It waits for that run's end; of several that wait, the first is kept.
    Queue,
    /// It cancels that run and fires.
    Cancel,
}

/// What becomes of slots for which no host was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissedFire {
    Skip,
    #[default]
    FireOnce,
    /// The protocol's name for the same: a backlog never becomes a flood.
    FireAll,
}

/// How the last slot went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastTurn {
    pub slot: Timestamp,
    pub at: Timestamp,
    pub outcome: TurnOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum TurnOutcome {
    Fired { run: RunId },
    Skipped { why: String },
    Failed { why: String },
}

/// Which schedules a list shows. Empty fields filter nothing.
#[derive(Debug, Clone, Default)]
pub struct ScheduleFilter {
    pub workflow: Option<WorkflowId>,
    pub roster_id: Option<RosterId>,
    /// Only schedules that stand after this one in the list.
    pub after: Option<ScheduleId>,
    pub limit: usize,
}

impl ScheduleState {
    /// Notes that a slot fires. Answers false where it has fired before, also where the schedule or clock was set back.
    pub(super) fn fire(&mut self, slot: Timestamp) -> bool {
        let is_new = self.fired_through.is_none_or(|last| slot > last);
        self.fired_through = self.fired_through.max(Some(slot));
        is_new
    }

    /// What lies ahead has not fired, whatever a clock said that was put back since.
    pub(super) fn reopen_slots_ahead(&mut self) {
        let before_next = self.next_slot.map(|next| Timestamp::from_millis(next.as_millis() - 1));
        if let Some(before_next) = before_next {
            self.fired_through = self.fired_through.map(|last| last.min(before_next));
        }
    }
}

/// What a scan found.
#[derive(Debug, Clone, Default)]
pub struct DueSchedules {
    pub schedules: Vec<Schedule>,
    /// When the next schedule that is not due yet becomes so.
    pub next: Option<Timestamp>,
}

impl Schedule {
    /// The owner of its runs.
    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.place.tenant.clone(),
            workspace: self.place.workspace.clone(),
            principal: self.state.principal.clone(),
        }
    }

    /// Its slots after an instant, in order. Nothing for one that is done.
    pub fn slots(&self, after: Timestamp, most: usize) -> Result<Vec<Timestamp>, ScheduleError> {
        Ok(match &self.state.timing {
            Timing::Cron { cron, timezone } => {
                Cron::read(cron, timezone)?.fires(after).take(most).collect()
            }
            Timing::Once { at } => {
                let is_open = *at > after && self.state.next_slot.is_some();
                Some(*at).filter(|_| is_open).into_iter().take(most).collect()
            }
        })
    }

    /// What it does, in plain English.
    pub fn describe(&self) -> String {
        match &self.state.timing {
            Timing::Cron { cron, timezone } => {
                Cron::read(cron, timezone).map_or_else(|error| error.to_string(), |c| c.describe())
            }
            Timing::Once { at } => format!("Once, at {at}"),
        }
    }
}
