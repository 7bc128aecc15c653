//! Schedules at rest: records by id, due when their next slot is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{Object, RosterId, ScheduleId, Timestamp, WorkflowId};

use super::schedule::{DueSchedules, Schedule, ScheduleFilter, ScheduleState};
use crate::records::{
    Expected, Key, Kind, MEMBER, Record, RecordChange, RecordQuery, Tries, WORKFLOW, Within,
};
use crate::store::{Batch, NewRun, Scope, Store, StoreError};

/// The schedules of all tenants. A change names the version that was read.
#[derive(Debug, Clone)]
pub struct Schedules {
    store: Arc<dyn Store>,
}

/// What the record itself does not say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    id: ScheduleId,
    workflow: WorkflowId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    roster_id: Option<RosterId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trigger: Option<String>,
    #[serde(default)]
    inputs: Object,
    state: ScheduleState,
}

fn key(id: &ScheduleId) -> Key {
    Key::of([id.as_str()])
}

fn read(record: &Record) -> Result<Schedule, StoreError> {
    let Body { id, workflow, roster_id, trigger, inputs, state } = record.read()?;
    let (place, version, wake_at) = (record.place.clone(), record.version, record.due_at);
    Ok(Schedule { id, place, workflow, roster_id, trigger, inputs, version, wake_at, state })
}

fn put(schedule: Schedule) -> Result<RecordChange, StoreError> {
    let Schedule { id, place, workflow, roster_id, trigger, inputs, version: _, wake_at, state } =
        schedule;
    let (key, realm) = (key(&id), place.realm());
    let by_workflow = WORKFLOW.of(&realm, workflow.as_str());
    let by_member = roster_id.as_ref().map(|member| MEMBER.of(&realm, member.as_str()));
    let body = Body { id, workflow, roster_id, trigger, inputs, state };
    let put = RecordChange::put(Kind::Schedule, key, place, &body)?.due(wake_at);
    Ok(put.found_by([by_workflow]).found_by(by_member))
}

impl Schedules {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Keeps a new schedule. An id that is taken is [`StoreError::Moved`].
    pub async fn add_schedule(&self, schedule: Schedule) -> Result<(), StoreError> {
        let new = put(schedule)?.expecting(Expected::Absent);
        self.store.commit(Batch::of_records([new])).await
    }

    /// Replaces a schedule that still has its version; otherwise [`StoreError::Moved`].
    pub async fn change_schedule(&self, schedule: Schedule) -> Result<(), StoreError> {
        let expected = Expected::Version(schedule.version);
        self.store.commit(Batch::of_records([put(schedule)?.expecting(expected)])).await
    }

    /// Answers whether there was one that the caller may see.
    pub async fn remove_schedule(
        &self,
        scope: &Scope,
        id: &ScheduleId,
    ) -> Result<bool, StoreError> {
        if self.schedule(scope, id).await?.is_none() {
            return Ok(false);
        }
        let delete = RecordChange::delete(Kind::Schedule, key(id)).expecting(Expected::Present);
        match self.store.commit(Batch::of_records([delete])).await {
            Err(StoreError::Moved { .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    pub async fn schedule(
        &self,
        scope: &Scope,
        id: &ScheduleId,
    ) -> Result<Option<Schedule>, StoreError> {
        let found = self.store.get(Kind::Schedule, &key(id)).await?;
        found.filter(|record| scope.includes(&record.place)).as_ref().map(read).transpose()
    }

    /// Lists schedules in the order of their ids.
    pub async fn schedules(
        &self,
        scope: &Scope,
        filter: &ScheduleFilter,
    ) -> Result<Vec<Schedule>, StoreError> {
        let (realm, after) = (scope.realm(), filter.after.as_ref().map(key));
        let query = RecordQuery::all(Kind::Schedule, Within::VisibleTo(scope.clone())).after(after);
        let query = match (&filter.roster_id, &filter.workflow) {
            // A member has few: those of one workflow are picked from them.
            (Some(member), Some(_)) => query.found_by(MEMBER.of(&realm, member.as_str())),
            (Some(member), None) => {
                query.found_by(MEMBER.of(&realm, member.as_str())).limit(filter.limit)
            }
            (None, Some(workflow)) => {
                query.found_by(WORKFLOW.of(&realm, workflow.as_str())).limit(filter.limit)
            }
            (None, None) => query.limit(filter.limit),
        };
        let found: Vec<Schedule> =
            self.store.scan(&query).await?.iter().map(read).collect::<Result<_, _>>()?;
        let is_asked_for = |schedule: &Schedule| {
            filter.workflow.as_ref().is_none_or(|workflow| *workflow == schedule.workflow)
        };
        Ok(found.into_iter().filter(is_asked_for).take(filter.limit).collect())
    }

    /// Reads up to `most` schedules that are due by now, the longest due first.
    pub async fn due_schedules(
        &self,
        at: Timestamp,
        most: usize,
    ) -> Result<DueSchedules, StoreError> {
        let due = self.store.due(Kind::Schedule, at, most).await?;
        let schedules = due.records.iter().map(read).collect::<Result<_, _>>()?;
        Ok(DueSchedules { schedules, next: due.next })
    }

    /// Keeps a schedule's next state, the slot that it fired and that slot's run, or none of them. A schedule that no
    /// longer has its version, and a slot that has fired, are [`StoreError::Moved`]. Where no slot fired, those from
    /// the next one on count as not fired: a clock that was put back comes to them again.
    pub async fn advance_schedule(
        &self,
        mut schedule: Schedule,
        fired: Option<(Timestamp, NewRun)>,
    ) -> Result<(), StoreError> {
        let expected = Expected::Version(schedule.version);
        let run = match fired {
            Some((slot, _)) if !schedule.state.fire(slot) => {
                return Err(StoreError::Moved { what: format!("schedule {}", schedule.id) });
            }
            Some((_, run)) => Some(run),
            None => {
                schedule.state.reopen_slots_ahead();
                None
            }
        };
        let batch = Batch::of_records([put(schedule)?.expecting(expected)]);
        self.store.commit(Batch { births: Vec::from_iter(run), ..batch }).await
    }

    /// What makes these the schedules that a workflow's definition declares in one place, to be written with the
    /// definition. Those that are there already stay as they are.
    pub async fn declaring(
        &self,
        place: &Scope,
        workflow: &WorkflowId,
        declared: Vec<Schedule>,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let query = RecordQuery::all(Kind::Schedule, Within::Place(place.clone()));
        let query = query.found_by(WORKFLOW.of(&place.realm(), workflow.as_str()));
        let known = self.store.scan(&query).await?.iter().map(read).collect::<Result<_, _>>()?;
        declare(known, declared)
    }

    /// Makes these the schedules that a workflow's definition declares in one place.
    pub async fn declare_schedules(
        &self,
        place: &Scope,
        workflow: &WorkflowId,
        declared: Vec<Schedule>,
    ) -> Result<(), StoreError> {
        let mut tries = Tries::default();
        loop {
            let changes = self.declaring(place, workflow, declared.clone()).await?;
            let outcome = self.store.commit(Batch::of_records(changes)).await;
            if !tries.again(&outcome) {
                return outcome;
            }
        }
    }
}

/// Adds what is new among the declared schedules, and takes away what a definition declared that it no longer does.
fn declare(known: Vec<Schedule>, declared: Vec<Schedule>) -> Result<Vec<RecordChange>, StoreError> {
    let is_in = |all: &[Schedule], one: &Schedule| all.iter().any(|other| other.id == one.id);
    let gone = known
        .iter()
        .filter(|known| known.trigger.is_some() && !is_in(&declared, known))
        .map(|gone| Ok(RecordChange::delete(Kind::Schedule, key(&gone.id))));
    let new = declared.iter().filter(|declared| !is_in(&known, declared)).cloned();
    gone.chain(new.map(|new| Ok(put(new)?.expecting(Expected::Absent)))).collect()
}
