//! What came in over trigger subscriptions: kept once, settled once.

use rusqlite::{Connection, Row, params};

use callboard_engine::{Arrival, ArrivalState, DeadReason, DueArrivals, Kept, Scope, StoreError};
use callboard_protocol::{RunId, SubscriptionState, Timestamp, Workspace};

use super::create::{self, SealedRun};
use super::fault::Fault;
use super::rows::{execute, optional_time, scope_params, signed, time, unsigned};
use super::triggers::{IN_SCOPE, key_of, moved};
use super::webhooks::mode;
use crate::seal::Seal;

const COLUMNS: &str = "SELECT arrival_id, subscription_id, tenant, workspace, test, dedup_key, attempts, arrivals.version,
     received_at, due_at, run_id, delivered_at, reason, dead_at, error, sealed_event
     FROM arrivals JOIN trigger_subscriptions ON trigger_subscriptions.id = arrivals.subscription WHERE ";

/// An arrival as it goes to the disk.
pub(super) struct SealedArrival {
    arrival: Arrival,
    sealed_event: Option<Vec<u8>>,
}

impl SealedArrival {
    pub(super) fn seal(arrival: Arrival, seal: &Seal) -> Result<Self, StoreError> {
        let sealed = arrival.event.as_deref().map(|event| seal.seal(&place(&arrival.id), event));
        let sealed_event = sealed.transpose().map_err(|error| {
            StoreError::Unavailable(format!("a delivery cannot be sealed: {error}"))
        })?;
        Ok(Self { arrival, sealed_event })
    }
}

/// Where the content of an arrival stands, for its seal.
fn place(id: &str) -> String {
    format!("arrivals/{id}/event")
}

/// The columns of a state: due, run, delivered, reason, dead.
type StateColumns<'a> = (Option<i64>, Option<&'a str>, Option<i64>, Option<&'a str>, Option<i64>);

fn state_columns(state: &ArrivalState) -> StateColumns<'_> {
    match state {
        ArrivalState::Waiting { due_at } => (Some(due_at.as_millis()), None, None, None, None),
        ArrivalState::Delivered { run, at } => {
            (None, Some(run.as_str()), Some(at.as_millis()), None, None)
        }
        ArrivalState::Dead { reason, at } => {
            (None, None, None, Some(reason.as_str()), Some(at.as_millis()))
        }
    }
}

/// Refusals come before the first change, so that they cost their neighbours in the commit nothing.
pub(super) fn keep(
    db: &Connection,
    seal: &Seal,
    sealed: &SealedArrival,
    run: Option<&SealedRun>,
) -> Result<Kept, Fault> {
    let arrival = &sealed.arrival;
    let key = match key_of(db, &arrival.subscription)? {
        Some((key, SubscriptionState::Active)) => key,
        Some((_, state)) => return Ok(Kept::NotActive(state)),
        None => return Ok(Kept::NotActive(SubscriptionState::Failed)),
    };
    if insert(db, key, sealed)? > 0 {
        if let Some(run) = run {
            create::create(db, run)?;
        }
        return Ok(Kept::New);
    }
    let same = [COLUMNS, "arrivals.subscription = ?1 AND dedup_key = ?2"].concat();
    let mut select = db.prepare_cached(&same)?;
    let mut rows = select.query(params![key, arrival.dedup_key])?;
    let known = rows.next()?.map(|row| read(row, seal)).transpose()?;
    known.map(|known| Kept::Known(Box::new(known))).ok_or_else(|| moved(&arrival.id))
}

/// Answers how many were added: none where the same thing came before.
fn insert(db: &Connection, key: i64, sealed: &SealedArrival) -> Result<usize, Fault> {
    let arrival = &sealed.arrival;
    let (due, run, delivered, reason, dead) = state_columns(&arrival.state);
    Ok(execute(
        db,
        "INSERT INTO arrivals (arrival_id, subscription, dedup_key, attempts, version, received_at, due_at, run_id,
             delivered_at, reason, dead_at, error, sealed_event)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (subscription, dedup_key) DO NOTHING",
        params![
            arrival.id,
            key,
            arrival.dedup_key,
            arrival.attempts,
            signed(arrival.version),
            arrival.received_at.as_millis(),
            due,
            run,
            delivered,
            reason,
            dead,
            arrival.error,
            sealed.sealed_event,
        ],
    )?)
}

pub(super) fn note_refused(
    db: &Connection,
    sealed: &SealedArrival,
    most: usize,
) -> Result<(), Fault> {
    let Some((key, _)) = key_of(db, &sealed.arrival.subscription)? else { return Ok(()) };
    insert(db, key, sealed)?;
    let sql = "DELETE FROM arrivals WHERE id IN (
         SELECT id FROM arrivals WHERE subscription = ?1 AND dead_at IS NOT NULL AND reason = ?2
         ORDER BY dead_at DESC, id DESC LIMIT -1 OFFSET ?3)";
    let reason = DeadReason::VerificationFailed.as_str();
    execute(db, sql, params![key, reason, signed(most as u64)])?;
    Ok(())
}

pub(super) fn settle(
    db: &Connection,
    arrival: &Arrival,
    expected: u64,
    buries: bool,
) -> Result<(), Fault> {
    let (due, run, delivered, reason, dead) = state_columns(&arrival.state);
    let changed = execute(
        db,
        "UPDATE arrivals SET attempts = ?3, version = ?4, due_at = ?5, run_id = ?6, delivered_at = ?7, reason = ?8,
             dead_at = ?9, error = ?10
         WHERE arrival_id = ?1 AND version = ?2",
        params![
            arrival.id,
            signed(expected),
            arrival.attempts,
            signed(arrival.version),
            due,
            run,
            delivered,
            reason,
            dead,
            arrival.error,
        ],
    )?;
    if changed == 0 {
        return Err(moved(&arrival.id));
    }
    if buries && let Some((key, _)) = key_of(db, &arrival.subscription)? {
        let state = SubscriptionState::DeadLettered.as_str();
        let sql =
            "UPDATE trigger_subscriptions SET state = ?2, version = version + 1 WHERE id = ?1";
        execute(db, sql, params![key, state])?;
        execute(
            db,
            "UPDATE arrivals SET due_at = NULL, reason = ?2, dead_at = ?3, version = version + 1
             WHERE subscription = ?1 AND due_at IS NOT NULL",
            params![key, reason, dead],
        )?;
    }
    Ok(())
}

pub(super) fn due(
    db: &Connection,
    seal: &Seal,
    at: Timestamp,
    most: usize,
) -> Result<DueArrivals, Fault> {
    let active = "state = 'active' AND due_at IS NOT NULL";
    let sql = [COLUMNS, active, " AND due_at <= ?1 ORDER BY due_at LIMIT ?2"].concat();
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![at.as_millis(), signed(most as u64)])?;
    let mut arrivals = Vec::new();
    while let Some(row) = rows.next()? {
        arrivals.push(read(row, seal)?);
    }
    let next = "SELECT min(due_at) FROM arrivals WHERE due_at IS NOT NULL AND due_at > ?1";
    let next: Option<i64> =
        db.prepare_cached(next)?.query_row([at.as_millis()], |row| row.get(0))?;
    Ok(DueArrivals { arrivals, next: next.map(Timestamp::from_millis) })
}

pub(super) fn find(
    db: &Connection,
    seal: &Seal,
    scope: &Scope,
    subscription: &str,
    id: &str,
) -> Result<Option<Arrival>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = [COLUMNS, IN_SCOPE, " AND subscription_id = ?4 AND arrival_id = ?5"].concat();
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![tenant, test, workspace, subscription, id])?;
    rows.next()?.map(|row| read(row, seal)).transpose()
}

pub(super) fn dead(
    db: &Connection,
    seal: &Seal,
    scope: &Scope,
    subscription: &str,
    since: Timestamp,
    after: Option<&(Timestamp, String)>,
    limit: usize,
) -> Result<Vec<Arrival>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = [
        COLUMNS,
        IN_SCOPE,
        " AND subscription_id = ?4 AND dead_at IS NOT NULL AND dead_at >= ?5
          AND (?6 IS NULL OR (dead_at, arrival_id) < (?6, ?7))
          ORDER BY dead_at DESC, arrival_id DESC LIMIT ?8",
    ];
    let (after_at, after_id) = after.map(|(at, id)| (at.as_millis(), id.as_str())).unzip();
    let mut select = db.prepare_cached(&sql.concat())?;
    let mut rows = select.query(params![
        tenant,
        test,
        workspace,
        subscription,
        since.as_millis(),
        after_at,
        after_id,
        signed(limit as u64),
    ])?;
    let mut arrivals = Vec::new();
    while let Some(row) = rows.next()? {
        arrivals.push(read(row, seal)?);
    }
    Ok(arrivals)
}

pub(super) fn has_old(
    db: &Connection,
    delivered_before: Timestamp,
    dead_before: Timestamp,
) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM arrivals WHERE delivered_at IS NOT NULL AND delivered_at < ?1)
         OR EXISTS (SELECT 1 FROM arrivals WHERE dead_at IS NOT NULL AND dead_at < ?2)";
    let mut select = db.prepare_cached(sql)?;
    Ok(select
        .query_row([delivered_before.as_millis(), dead_before.as_millis()], |row| row.get(0))?)
}

pub(super) fn forget(
    db: &Connection,
    delivered_before: Timestamp,
    dead_before: Timestamp,
) -> Result<(), Fault> {
    let sql = "DELETE FROM arrivals WHERE delivered_at IS NOT NULL AND delivered_at < ?1";
    execute(db, sql, params![delivered_before.as_millis()])?;
    let sql = "DELETE FROM arrivals WHERE dead_at IS NOT NULL AND dead_at < ?1";
    execute(db, sql, params![dead_before.as_millis()])?;
    Ok(())
}

fn read(row: &Row<'_>, seal: &Seal) -> Result<Arrival, Fault> {
    let id: String = row.get(0)?;
    let unreadable = |why: &dyn std::fmt::Display| Fault::unreadable(format!("delivery {id}"), why);
    let sealed: Option<Vec<u8>> = row.get(15)?;
    let event = sealed.map(|sealed| seal.open(&place(&id), &sealed)).transpose();
    let state = match (optional_time(row, 9)?, optional_time(row, 11)?, optional_time(row, 13)?) {
        (Some(due_at), None, None) => ArrivalState::Waiting { due_at },
        (None, Some(at), None) => {
            ArrivalState::Delivered { run: RunId::from(row.get::<_, String>(10)?), at }
        }
        (None, None, Some(at)) => {
            let reason = DeadReason::from_name(&row.get::<_, String>(12)?);
            let reason = reason.ok_or_else(|| unreadable(&"its reason is unknown"))?;
            ArrivalState::Dead { reason, at }
        }
        _ => return Err(unreadable(&"its state is unknown")),
    };
    Ok(Arrival {
        subscription: row.get(1)?,
        place: Scope {
            tenant: row.get::<_, String>(2)?.into(),
            workspace: row.get::<_, Option<String>>(3)?.map(Workspace::from),
            mode: mode(row, 4)?,
        },
        dedup_key: row.get(5)?,
        attempts: row.get(6)?,
        version: unsigned(row, 7)?,
        received_at: time(row, 8)?,
        state,
        error: row.get(14)?,
        event: event.map_err(|error| unreadable(&error))?,
        id,
    })
}
