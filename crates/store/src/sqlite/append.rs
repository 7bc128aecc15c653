//! Appending to one log: events, head, snapshot, open questions and the fate of the lease, in one request.

use std::borrow::Cow;

use rusqlite::{Connection, params};

use callboard_engine::{Append, Claim, Row, StoreError, Tenure};
use callboard_protocol::{HostId, RunId, RunStatus, Timestamp};

use super::fault::Fault;
use super::rows::{execute, millis, signed, status, unsigned};
use super::short::shorten;
use super::{create, inbox, outcome};
use crate::sealed::{SealedAppend, cause_text, unknown_run};

/// Refuses where another process, or none, holds the run by now.
pub(super) fn check_claim(db: &Connection, claim: &Claim) -> Result<(), Fault> {
    let is_held = Stored::read(db, &claim.run)?.is_some_and(|stored| stored.is_held_by(claim));
    if is_held { Ok(()) } else { Err(StoreError::LeaseLost { run: claim.run.clone() }.into()) }
}

/// Answers how many events the log holds now.
pub(super) fn append(db: &Connection, sealed: &SealedAppend) -> Result<u64, Fault> {
    let version = sealed.version();
    let SealedAppend { append, sealed, children } = sealed;
    if let Some(outcome) = &append.outcome {
        outcome::keep(db, outcome, append.head.updated_at)?;
    }
    let before = Stored::read(db, &append.run)?.ok_or_else(|| unknown_run(&append.run))?;
    if append.fence.as_ref().is_some_and(|fence| !before.is_held_by(&fence.claim)) {
        return Err(StoreError::LeaseLost { run: append.run.clone() }.into());
    }
    if before.version != append.expected {
        return Err(StoreError::Conflict { run: append.run.clone() }.into());
    }
    insert_events(db, before.id, append, sealed)?;
    update_head(db, &before, append, version)?;
    if let Some(snapshot) = &append.snapshot {
        execute(
            db,
            "INSERT OR REPLACE INTO snapshots (run, version, body) VALUES (?1, ?2, ?3)",
            params![before.id, signed(version), kept(snapshot, append.head.status)],
        )?;
    }
    for child in children {
        create::create(db, child)?;
    }
    if let Some(waiting) =
        append.wakes.as_ref().map(|run| Stored::read(db, run)).transpose()?.flatten()
    {
        waiting.set(db, &waiting.tenure.with_wake_requested(waiting.status))?;
    }
    if let Some(interrupts) = &append.interrupts {
        inbox::replace(db, before.id, interrupts)?;
    }
    Ok(version)
}

/// What an append must know of the run as it stands.
pub(super) struct Stored {
    pub(super) id: i64,
    pub(super) version: u64,
    status: RunStatus,
    pub(super) tenure: Tenure,
}

impl Stored {
    pub(super) fn read(db: &Connection, run: &RunId) -> Result<Option<Self>, Fault> {
        let mut select = db.prepare_cached(
            "SELECT id, version, holder, epoch, lease_until, wake_at, wake_requested, status FROM runs
             WHERE run_id = ?1",
        )?;
        let mut rows = select.query([run.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let time = |column| -> Result<Option<Timestamp>, rusqlite::Error> {
            Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
        };
        let tenure = Tenure {
            holder: row.get::<_, Option<String>>(2)?.map(HostId::from),
            epoch: unsigned(row, 3)?,
            lease_until: time(4)?,
            wake_at: time(5)?,
            is_wake_requested: row.get(6)?,
        };
        let (version, status) = (unsigned(row, 1)?, status(row, 7)?);
        Ok(Some(Self { id: row.get(0)?, version, status, tenure }))
    }

    pub(super) fn is_held_by(&self, claim: &Claim) -> bool {
        self.tenure.is_held_by(claim)
    }

    pub(super) fn set(&self, db: &Connection, tenure: &Tenure) -> Result<(), Fault> {
        set_tenure(db, self.id, tenure)
    }
}

/// Writes who holds a run from now on, and when it is due.
pub(super) fn set_tenure(db: &Connection, run: i64, tenure: &Tenure) -> Result<(), Fault> {
    execute(
        db,
        "UPDATE runs SET holder = ?2, epoch = ?3, lease_until = ?4, wake_at = ?5, wake_requested = ?6 WHERE id = ?1",
        params![
            run,
            tenure.holder.as_ref().map(HostId::as_str),
            signed(tenure.epoch),
            millis(tenure.lease_until),
            millis(tenure.wake_at),
            tenure.is_wake_requested,
        ],
    )?;
    Ok(())
}

/// Lists look into the folds of runs that go on.
fn kept(snapshot: &str, status: RunStatus) -> Cow<'_, str> {
    if status.is_terminal() { shorten(snapshot) } else { Cow::Borrowed(snapshot) }
}

/// What every run says of itself. Into the payload of any other event SQL may look.
const PLAIN: [&str; 4] = ["run.started", "node.started", "node.completed", "run.completed"];

fn said(row: &Row) -> Cow<'_, str> {
    match PLAIN.contains(&row.kind.as_str()) {
        true => shorten(&row.payload),
        false => Cow::Borrowed(&row.payload),
    }
}

fn update_head(
    db: &Connection,
    before: &Stored,
    append: &Append,
    version: u64,
) -> Result<(), Fault> {
    let head = &append.head;
    let tenure = before.tenure.after_append(head, append.fence.as_ref());
    execute(
        db,
        "UPDATE runs SET status = ?2, version = ?3, updated_at = ?4, wake_at = ?5, holder = ?6, lease_until = ?7,
             wake_requested = ?8, priority = CASE WHEN ?2 = 'cancelling' THEN 1000 ELSE priority END WHERE id = ?1",
        params![
            before.id,
            head.status.as_str(),
            signed(version),
            head.updated_at.as_millis(),
            millis(tenure.wake_at),
            tenure.holder.as_ref().map(HostId::as_str),
            millis(tenure.lease_until),
            tenure.is_wake_requested,
        ],
    )?;
    Ok(())
}

fn insert_events(
    db: &Connection,
    run: i64,
    append: &Append,
    sealed: &[Option<Vec<u8>>],
) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO events (run, sequence, at, kind, node, payload, sealed, cause)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for ((row, sealed), sequence) in append.rows.iter().zip(sealed).zip(append.expected..) {
        insert.execute(params![
            run,
            signed(sequence),
            row.at.as_millis(),
            row.kind,
            row.node.as_ref().map(|node| node.as_str()),
            said(row),
            sealed,
            row.cause.as_ref().map(cause_text),
        ])?;
    }
    Ok(())
}
