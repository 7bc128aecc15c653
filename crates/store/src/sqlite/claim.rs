//! Claims: taking due runs, renewing a lease, releasing it.

use rusqlite::{Connection, Row, params};

use callboard_engine::{Claim, ClaimOrigin, ClaimRequest, Claimed, Turns};
use callboard_protocol::{RunId, Tenant, Timestamp};

use super::fault::Fault;
use super::rows::{execute, millis, signed, unsigned};

/// Runs that are due and not under a valid lease, the longest overdue first.
pub(super) const DUE: &str = "SELECT id, run_id, epoch, holder IS NOT NULL, tenant FROM runs
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
    for (id, claim, tenant) in chosen {
        execute(
            db,
            "UPDATE runs SET holder = ?2, epoch = ?3, lease_until = ?4, wake_at = ?4, wake_requested = 0 WHERE id = ?1",
            params![id, claim.host.as_str(), signed(claim.epoch), request.until.as_millis()],
        )?;
        claims.push(claim);
        tenants.push(tenant);
    }
    Ok(Claimed { claims, tenants, has_more, next: next.map(Timestamp::from_millis) })
}

/// A row, its claim to be, and whose it is.
type DueRun = (i64, Claim, Tenant);

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
    let claim = Claim {
        run: row.get::<_, String>(1)?.into(),
        host: request.host.clone(),
        epoch: unsigned(row, 2)? + 1,
        origin: if row.get(3)? { ClaimOrigin::Lost } else { ClaimOrigin::Free },
    };
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
    let mut update = db.prepare_cached(
        "UPDATE runs SET holder = NULL, lease_until = NULL,
             wake_at = CASE WHEN wake_requested OR version <> ?5 THEN 0 ELSE ?4 END
         WHERE run_id = ?1 AND holder = ?2 AND epoch = ?3 AND lease_until IS NOT NULL
         RETURNING wake_at IS 0",
    )?;
    let (run, host) = (claim.run.as_str(), claim.host.as_str());
    let seen = seen.map(signed);
    let mut rows = update.query(params![run, host, signed(claim.epoch), millis(wake_at), seen])?;
    let is_due = rows.next()?.map_or(Ok(false), |row| row.get(0))?;
    // A statement that answers has done its work only when it is asked to the end.
    while rows.next()?.is_some() {}
    Ok(is_due)
}

/// Ends every lease: their holders are gone, since this process has the folder's lock. The names
/// stay, and the runs are due at once.
pub(super) fn void_leases(db: &Connection) -> Result<usize, rusqlite::Error> {
    db.execute(VOID, [])
}
