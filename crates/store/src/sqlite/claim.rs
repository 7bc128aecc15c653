//! Claims: taking due runs, renewing a lease, releasing it.

use rusqlite::{Connection, Row, params};

use callboard_engine::{Claim, ClaimRequest, Claimed, Tenure, Turns};
use callboard_protocol::{HostId, RunId, Tenant, Timestamp};

use super::append::{Stored, set_tenure};
use super::fault::Fault;
use super::rows::{execute, signed, unsigned};

/// Runs that are due and not under a valid lease, the longest overdue first.
pub(super) const DUE: &str = "SELECT id, run_id, epoch, holder, tenant FROM runs
     WHERE wake_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?3)
     ORDER BY wake_at, id LIMIT ?2";

pub(super) const NEXT: &str = "SELECT min(wake_at) FROM runs WHERE wake_at > ?1";

/// A held run always has a `wake_at`; saying so lets the scan read the queue's index alone.
pub(super) const VOID: &str = "UPDATE runs SET lease_until = NULL, wake_at = 0
     WHERE wake_at IS NOT NULL AND lease_until IS NOT NULL";

pub(super) fn claim(db: &Connection, request: &ClaimRequest) -> Result<Claimed, Fault> {
    let at = request.at.as_millis();
    let next: Option<i64> = db.prepare_cached(NEXT)?.query_row([at], |row| row.get(0))?;
    let (chosen, has_more) = due(db, request)?;
    let (mut claims, mut tenants) = (Vec::new(), Vec::new());
    for (id, (claim, tenure), tenant) in chosen {
        set_tenure(db, id, &tenure)?;
        claims.push(claim);
        tenants.push(tenant);
    }
    Ok(Claimed { claims, tenants, has_more, next: next.map(Timestamp::from_millis) })
}

/// A row, its claim to be with what is kept of it, and whose it is.
type DueRun = (i64, (Claim, Tenure), Tenant);

fn due(db: &Connection, request: &ClaimRequest) -> Result<(Vec<DueRun>, bool), Fault> {
    let few = select_due(db, request, request.most + 1)?;
    match few {
        // Most of the time no more is due than can be taken.
        (few, count) if count <= request.most => Ok(few),
        _ => Ok(select_due(db, request, Turns::<DueRun>::MOST_LOOKED_AT)?.0),
    }
}

/// What is chosen among the first `most` that are due, and how many those are.
fn select_due(
    db: &Connection,
    request: &ClaimRequest,
    most: usize,
) -> Result<((Vec<DueRun>, bool), usize), Fault> {
    let mut select = db.prepare_cached(DUE)?;
    let (at, lapsed_at) = (request.at.as_millis(), request.lapsed_at.as_millis());
    let mut rows = select.query(params![at, signed(most as u64), lapsed_at])?;
    let (mut turns, mut count) = (Turns::new(request), 0);
    while let Some(row) = rows.next()? {
        let tenant = row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?;
        turns.offer(tenant, || due_run(row, request, tenant))?;
        count += 1;
    }
    Ok((turns.chosen(), count))
}

fn due_run(row: &Row<'_>, request: &ClaimRequest, tenant: &str) -> Result<DueRun, Fault> {
    let holder = row.get::<_, Option<String>>(3)?.map(HostId::from);
    let before = Tenure { epoch: unsigned(row, 2)?, holder, ..Tenure::default() };
    let claim = before.claimed(row.get::<_, String>(1)?.into(), request);
    Ok((row.get(0)?, claim, tenant.into()))
}

pub(super) fn renew(
    db: &Connection,
    claims: &[Claim],
    until: Timestamp,
) -> Result<Vec<RunId>, Fault> {
    let mut lost = Vec::new();
    for claim in claims {
        let renewed = execute(
            db,
            "UPDATE runs SET lease_until = ?4, wake_at = ?4
             WHERE run_id = ?1 AND holder = ?2 AND epoch = ?3 AND lease_until IS NOT NULL",
            params![
                claim.run.as_str(),
                claim.host.as_str(),
                signed(claim.epoch),
                until.as_millis()
            ],
        )?;
        if renewed == 0 {
            lost.push(claim.run.clone());
        }
    }
    Ok(lost)
}

/// A claim that is no longer held has nothing to give back, which is what the caller wanted.
pub(super) fn release(
    db: &Connection,
    claim: &Claim,
    seen: Option<u64>,
    wake_at: Option<Timestamp>,
) -> Result<bool, Fault> {
    let Some(run) = Stored::read(db, &claim.run)?.filter(|run| run.is_held_by(claim)) else {
        return Ok(false);
    };
    let released = run.tenure.released(run.version, seen, wake_at);
    run.set(db, &released)?;
    Ok(released.is_due_at_once())
}

/// Ends every lease: their holders are gone, since this process has the folder's lock. The names
/// stay, and the runs are due at once.
pub(super) fn void_leases(db: &Connection) -> Result<usize, rusqlite::Error> {
    db.execute(VOID, [])
}
