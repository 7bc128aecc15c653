//! Schedules: rows that move on together with the run of a slot.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};

use callboard_engine::{
    DueSchedules, NewRun, Schedule, ScheduleFilter, Schedules, Scope, StoreError,
};
use callboard_protocol::{RosterId, ScheduleId, Timestamp, WorkflowId, Workspace};

use super::SqliteStore;
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::rows::{execute, millis, optional_time, scope_params, signed, unsigned};
use super::webhooks::mode;
use crate::seal::Seal;

const COLUMNS: &str = "SELECT schedule_id, tenant, workspace, test, workflow_id, roster_id, trigger_id, version, wake_at,
     state, sealed_inputs FROM schedules WHERE ";

/// Keeps a caller inside its scope; `scope_params` fills ?1 to ?3.
const IN_SCOPE: &str = "tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3)";

const DUE: &str = "wake_at IS NOT NULL AND wake_at <= ?1 ORDER BY wake_at LIMIT ?2";
pub(super) const NEXT: &str =
    "SELECT min(wake_at) FROM schedules WHERE wake_at IS NOT NULL AND wake_at > ?1";

/// What the plan of the queue is looked up by.
#[cfg(test)]
pub(super) fn due_statement() -> String {
    [COLUMNS, DUE].concat()
}

/// A schedule as it goes to the disk.
pub(super) struct SealedSchedule {
    schedule: Schedule,
    state: String,
    sealed_inputs: Vec<u8>,
}

impl SealedSchedule {
    pub(super) fn seal(schedule: Schedule, seal: &Seal) -> Result<Self, StoreError> {
        let id = &schedule.id;
        let unwritable = |why: &dyn std::fmt::Display| {
            StoreError::Unavailable(format!("schedule {id} cannot be written: {why}"))
        };
        let state = serde_json::to_string(&schedule.state).map_err(|error| unwritable(&error))?;
        let inputs = serde_json::to_string(&schedule.inputs).map_err(|error| unwritable(&error))?;
        let sealed = seal.seal(&inputs_place(id), &inputs).map_err(|error| unwritable(&error))?;
        Ok(Self { state, sealed_inputs: sealed, schedule })
    }

    pub(super) fn seal_all(schedules: Vec<Schedule>, seal: &Seal) -> Result<Vec<Self>, StoreError> {
        schedules.into_iter().map(|schedule| Self::seal(schedule, seal)).collect()
    }
}

/// Where a schedule's inputs stand, for their seal.
fn inputs_place(id: &ScheduleId) -> String {
    format!("schedules/{id}/inputs")
}

#[async_trait]
impl Schedules for SqliteStore {
    async fn add_schedule(&self, schedule: Schedule) -> Result<(), StoreError> {
        let sealed = SealedSchedule::seal(schedule, &self.seal)?;
        self.writer
            .write(move |db| match insert(db, &sealed)? {
                true => Ok(()),
                false => Err(moved(&sealed.schedule.id)),
            })
            .await
    }

    async fn change_schedule(&self, schedule: Schedule, expected: u64) -> Result<(), StoreError> {
        let sealed = SealedSchedule::seal(schedule, &self.seal)?;
        self.writer.write(move |db| change(db, &sealed, expected)).await
    }

    async fn remove_schedule(&self, scope: &Scope, id: &ScheduleId) -> Result<bool, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.writer.write(move |db| remove(db, &scope, &id)).await
    }

    async fn schedule(
        &self,
        scope: &Scope,
        id: &ScheduleId,
    ) -> Result<Option<Schedule>, StoreError> {
        let (scope, id, seal) = (scope.clone(), id.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| find(db, &seal, &scope, &id)).await
    }

    async fn schedules(
        &self,
        scope: &Scope,
        filter: &ScheduleFilter,
    ) -> Result<Vec<Schedule>, StoreError> {
        let (scope, filter, seal) = (scope.clone(), filter.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| list(db, &seal, &scope, &filter)).await
    }

    async fn due_schedules(&self, at: Timestamp, most: usize) -> Result<DueSchedules, StoreError> {
        let seal = Arc::clone(&self.seal);
        self.readers.read(move |db| due(db, &seal, at, most)).await
    }

    async fn advance_schedule(
        &self,
        schedule: Schedule,
        expected: u64,
        fired: Option<(Timestamp, NewRun)>,
    ) -> Result<(), StoreError> {
        let what = schedule.id.clone();
        let state = serde_json::to_string(&schedule.state).map_err(|error| {
            StoreError::Unavailable(format!("schedule {what} cannot be written: {error}"))
        })?;
        let Some((slot, run)) = fired else {
            let write = move |db: &Connection| {
                let row = advance(db, &schedule, &state, expected)?;
                forget_from(db, row, schedule.state.next_slot)
            };
            return self.writer.write(write).await;
        };
        let run = SealedRun::seal(run, &self.seal)?;
        let (changes, recent) = (Arc::clone(&self.changes), Arc::clone(&self.recent));
        let write = move |db: &Connection, run: &SealedRun| {
            let row = advance(db, &schedule, &state, expected)?;
            mark_fired(db, row, &schedule.id, slot, run)?;
            create::create(db, run)
        };
        let announce = move |run: SealedRun, ()| {
            recent.begin(&run.birth, run.head.status);
            changes.announce(&run.birth.run_id, 0);
        };
        self.writer.write_then(run, write, announce).await
    }

    async fn declare_schedules(
        &self,
        place: &Scope,
        workflow: &WorkflowId,
        declared: Vec<Schedule>,
    ) -> Result<(), StoreError> {
        let declared = SealedSchedule::seal_all(declared, &self.seal)?;
        let (place, workflow) = (place.clone(), workflow.clone());
        self.writer.write(move |db| declare(db, &place, &workflow, &declared)).await
    }
}

fn moved(id: &ScheduleId) -> Fault {
    StoreError::Moved { what: format!("schedule {id}") }.into()
}

/// Answers whether the id was new.
fn insert(db: &Connection, sealed: &SealedSchedule) -> Result<bool, Fault> {
    let schedule = &sealed.schedule;
    let (tenant, test, workspace) = scope_params(&schedule.place);
    let inserted = execute(
        db,
        "INSERT INTO schedules (schedule_id, tenant, workspace, test, workflow_id, roster_id, trigger_id, version,
             wake_at, state, sealed_inputs)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (schedule_id) DO NOTHING",
        params![
            schedule.id.as_str(),
            tenant,
            workspace,
            test,
            schedule.workflow.as_str(),
            schedule.roster_id.as_ref().map(|member| member.as_str()),
            schedule.trigger,
            signed(schedule.version),
            millis(schedule.wake_at),
            sealed.state,
            sealed.sealed_inputs,
        ],
    )?;
    Ok(inserted > 0)
}

fn change(db: &Connection, sealed: &SealedSchedule, expected: u64) -> Result<(), Fault> {
    let schedule = &sealed.schedule;
    let changed = execute(
        db,
        "UPDATE schedules SET version = ?3, wake_at = ?4, state = ?5, roster_id = ?6, sealed_inputs = ?7
         WHERE schedule_id = ?1 AND version = ?2",
        params![
            schedule.id.as_str(),
            signed(expected),
            signed(schedule.version),
            millis(schedule.wake_at),
            sealed.state,
            schedule.roster_id.as_ref().map(|member| member.as_str()),
            sealed.sealed_inputs,
        ],
    )?;
    if changed == 0 { Err(moved(&schedule.id)) } else { Ok(()) }
}

/// Moves a schedule on; answers its key in the other table.
fn advance(db: &Connection, schedule: &Schedule, state: &str, expected: u64) -> Result<i64, Fault> {
    let mut update = db.prepare_cached(
        "UPDATE schedules SET version = ?3, wake_at = ?4, state = ?5
         WHERE schedule_id = ?1 AND version = ?2 RETURNING id",
    )?;
    let mut rows = update.query(params![
        schedule.id.as_str(),
        signed(expected),
        signed(schedule.version),
        millis(schedule.wake_at),
        state,
    ])?;
    let row = rows.next()?.map(|row| row.get(0)).transpose()?.ok_or_else(|| moved(&schedule.id))?;
    // The statement has done its work only when it was read to its end.
    while rows.next()?.is_some() {}
    Ok(row)
}

/// What lies ahead has not fired, whatever a clock said that was put back since.
fn forget_from(db: &Connection, schedule: i64, next: Option<Timestamp>) -> Result<(), Fault> {
    let Some(next) = next else { return Ok(()) };
    let sql = "DELETE FROM schedule_fires WHERE schedule = ?1 AND slot >= ?2";
    execute(db, sql, params![schedule, next.as_millis()])?;
    Ok(())
}

fn mark_fired(
    db: &Connection,
    schedule: i64,
    id: &ScheduleId,
    slot: Timestamp,
    run: &SealedRun,
) -> Result<(), Fault> {
    let sql = "INSERT INTO schedule_fires (schedule, slot, run_id) VALUES (?1, ?2, ?3)
         ON CONFLICT (schedule, slot) DO NOTHING";
    let run = run.birth.run_id.as_str();
    let inserted = execute(db, sql, params![schedule, slot.as_millis(), run])?;
    if inserted == 0 { Err(moved(id)) } else { Ok(()) }
}

fn remove(db: &Connection, scope: &Scope, id: &ScheduleId) -> Result<bool, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = ["DELETE FROM schedules WHERE schedule_id = ?4 AND ", IN_SCOPE].concat();
    Ok(execute(db, &sql, params![tenant, test, workspace, id.as_str()])? > 0)
}

fn find(
    db: &Connection,
    seal: &Seal,
    scope: &Scope,
    id: &ScheduleId,
) -> Result<Option<Schedule>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(&[COLUMNS, "schedule_id = ?4 AND ", IN_SCOPE].concat())?;
    let mut rows = select.query(params![tenant, test, workspace, id.as_str()])?;
    rows.next()?.map(|row| schedule(row, seal)).transpose()
}

fn list(
    db: &Connection,
    seal: &Seal,
    scope: &Scope,
    filter: &ScheduleFilter,
) -> Result<Vec<Schedule>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = [
        COLUMNS,
        IN_SCOPE,
        " AND schedule_id > ?4 AND (?5 IS NULL OR workflow_id = ?5)
          AND (?6 IS NULL OR roster_id = ?6) ORDER BY schedule_id LIMIT ?7",
    ];
    let after = filter.after.as_ref().map_or("", |after| after.as_str());
    let workflow = filter.workflow.as_ref().map(|workflow| workflow.as_str());
    let limit = signed(filter.limit as u64);
    let mut select = db.prepare_cached(&sql.concat())?;
    let member = filter.roster_id.as_ref().map(|member| member.as_str());
    let params = params![tenant, test, workspace, after, workflow, member, limit];
    let mut rows = select.query(params)?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(schedule(row, seal)?);
    }
    Ok(schedules)
}

fn due(db: &Connection, seal: &Seal, at: Timestamp, most: usize) -> Result<DueSchedules, Fault> {
    let mut select = db.prepare_cached(&[COLUMNS, DUE].concat())?;
    let mut rows = select.query(params![at.as_millis(), signed(most as u64)])?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(schedule(row, seal)?);
    }
    let next: Option<i64> =
        db.prepare_cached(NEXT)?.query_row([at.as_millis()], |row| row.get(0))?;
    Ok(DueSchedules { schedules, next: next.map(Timestamp::from_millis) })
}

/// Removes what a definition no longer declares and adds what is new.
pub(super) fn declare(
    db: &Connection,
    place: &Scope,
    workflow: &WorkflowId,
    declared: &[SealedSchedule],
) -> Result<(), Fault> {
    let mut select = db.prepare_cached(
        "SELECT schedule_id FROM schedules
         WHERE tenant = ?1 AND test = ?2 AND workspace IS ?3 AND workflow_id = ?4 AND trigger_id IS NOT NULL",
    )?;
    let (tenant, test, workspace) = scope_params(place);
    let named = params![tenant, test, workspace, workflow.as_str()];
    let known = select.query_map(named, |row| row.get(0))?;
    let known: Vec<String> = known.collect::<Result<_, _>>()?;
    for id in known
        .iter()
        .filter(|id| !declared.iter().any(|declared| declared.schedule.id.as_str() == id.as_str()))
    {
        execute(db, "DELETE FROM schedules WHERE schedule_id = ?1", params![id])?;
    }
    for sealed in declared {
        insert(db, sealed)?;
    }
    Ok(())
}

fn schedule(row: &Row<'_>, seal: &Seal) -> Result<Schedule, Fault> {
    let id: ScheduleId = row.get::<_, String>(0)?.into();
    let unreadable =
        |why: &dyn std::fmt::Display| Fault::unreadable(format!("schedule {id}"), why.to_string());
    let state: String = row.get(9)?;
    let sealed: Vec<u8> = row.get(10)?;
    let inputs = seal.open(&inputs_place(&id), &sealed).map_err(|error| unreadable(&error))?;
    Ok(Schedule {
        place: Scope {
            tenant: row.get::<_, String>(1)?.into(),
            workspace: row.get::<_, Option<String>>(2)?.map(Workspace::from),
            mode: mode(row, 3)?,
        },
        workflow: row.get::<_, String>(4)?.into(),
        roster_id: row.get::<_, Option<String>>(5)?.map(RosterId::from),
        trigger: row.get(6)?,
        version: unsigned(row, 7)?,
        wake_at: optional_time(row, 8)?,
        state: serde_json::from_str(&state).map_err(|error| unreadable(&error))?,
        inputs: serde_json::from_str(&inputs).map_err(|error| unreadable(&error))?,
        id,
    })
}
