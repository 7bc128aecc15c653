//! Claims: taking due runs, renewing a lease, releasing it.

use rusqlite::{Connection, Row, ToSql, params};

use callboard_engine::{
    AtWork, Chosen, Claim, ClaimRequest, Claimed, DueRun, Queue, Tenure, Turns,
};
use callboard_protocol::{HostId, RunId, Timestamp};

use super::append::{Stored, set_tenure};
use super::fault::Fault;
use super::rows::{execute, signed, time, unsigned};

/// What is read of a due run.
macro_rules! due_columns {
    () => {
        "SELECT id, run_id, epoch, holder, tenant, workflow_id, agents, priority, wake_at, lease_until IS NOT NULL
         FROM runs "
    };
}

/// Runs that are due and not under a valid lease, the longest overdue first.
pub(super) const DUE: &str = concat!(
    due_columns!(),
    "WHERE wake_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?2) ORDER BY wake_at, id LIMIT ?3"
);

/// Those whose holder was lost.
pub(super) const LAPSED: &str = concat!(
    due_columns!(),
    "INDEXED BY runs_held WHERE lease_until IS NOT NULL AND lease_until <= ?2 AND wake_at <= ?1 LIMIT ?3"
);

/// Those of one queue and one priority, the longest overdue first.
pub(super) const QUEUED: &str = concat!(
    due_columns!(),
    "INDEXED BY runs_waiting WHERE lease_until IS NULL AND wake_at IS NOT NULL AND tenant = ?2 AND workflow_id = ?3
         AND agents = ?4 AND priority = ?5 AND wake_at <= ?1
     ORDER BY wake_at LIMIT ?6"
);

/// The queue after a given one that has runs which nobody holds: however many it has, it is one step.
pub(super) const NEXT_QUEUE: &str =
    "SELECT tenant, workflow_id, agents, priority FROM runs INDEXED BY runs_waiting
     WHERE lease_until IS NULL AND wake_at IS NOT NULL
         AND (tenant, workflow_id, agents, priority) > (?1, ?2, ?3, ?4)
     ORDER BY tenant, workflow_id, agents, priority LIMIT 1";

pub(super) const HELD: &str =
    "SELECT tenant, workflow_id, agents, count(*) FROM runs INDEXED BY runs_held
     WHERE lease_until IS NOT NULL GROUP BY tenant, workflow_id, agents";

pub(super) const NEXT: &str = "SELECT min(wake_at) FROM runs WHERE wake_at > ?1";

/// A held run always has a `wake_at`; saying so lets the scan read the queue's index alone.
pub(super) const VOID: &str = "UPDATE runs SET lease_until = NULL, wake_at = 0
     WHERE wake_at IS NOT NULL AND lease_until IS NOT NULL";

pub(super) fn claim(db: &Connection, request: &ClaimRequest) -> Result<Claimed, Fault> {
    let at = request.at.as_millis();
    let next: Option<i64> = db.prepare_cached(NEXT)?.query_row([at], |row| row.get(0))?;
    let Chosen { runs, has_more, held_back } = choose(db, request)?;
    let (mut claims, mut tenants) = (Vec::new(), Vec::new());
    for (tenant, (id, (claim, tenure))) in runs {
        set_tenure(db, id, &tenure)?;
        claims.push(claim);
        tenants.push(tenant);
    }
    Ok(Claimed { claims, tenants, has_more, next: next.map(Timestamp::from_millis), held_back })
}

/// A row, and its claim to be with what is kept of it.
type FoundRun = (i64, (Claim, Tenure));

fn choose(db: &Connection, request: &ClaimRequest) -> Result<Chosen<FoundRun>, Fault> {
    let at_work = if request.limits.is_empty() { AtWork::default() } else { at_work(db)? };
    let mut turns = Turns::new(request, at_work.clone());
    let (at, lapsed_at) = (request.at.as_millis(), request.lapsed_at.as_millis());
    let few = signed(request.most as u64 + 1);
    let count = offer(db, &mut turns, request, DUE, params![at, lapsed_at, few])?;
    // Most of the time no more is due than can be taken.
    if count <= request.most {
        return Ok(turns.chosen());
    }
    let mut turns = Turns::new(request, at_work);
    let most = signed(Turns::<FoundRun>::MOST_LOOKED_AT as u64);
    offer(db, &mut turns, request, LAPSED, params![at, lapsed_at, most])?;
    let mut open = Vec::new();
    for (queue, rank) in queues(db)? {
        let room = turns.room(&queue, rank);
        if room > 0 {
            open.push((queue, rank, room));
        }
    }
    let each = (Turns::<FoundRun>::MOST_LOOKED_AT / open.len().max(1)).max(1);
    for (Queue { tenant, workflow, agents }, rank, room) in open {
        let most = signed(room.min(each) as u64);
        let of = params![at, tenant.as_str(), workflow.as_str(), agents, rank, most];
        offer(db, &mut turns, request, QUEUED, of)?;
    }
    Ok(Chosen { has_more: true, ..turns.chosen() })
}

fn at_work(db: &Connection) -> Result<AtWork, Fault> {
    let mut select = db.prepare_cached(HELD)?;
    let mut rows = select.query([])?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        let runs = usize::try_from(unsigned(row, 3)?).unwrap_or(usize::MAX);
        held.push((queue(row, 0)?, runs));
    }
    Ok(AtWork::of(held))
}

/// Every queue that has runs which nobody holds, with their priority.
fn queues(db: &Connection) -> Result<Vec<(Queue, i32)>, Fault> {
    let mut select = db.prepare_cached(NEXT_QUEUE)?;
    let mut found: Vec<(Queue, i32)> = Vec::new();
    while found.len() < Turns::<FoundRun>::MOST_LOOKED_AT {
        let first = (Queue::default(), i32::MIN);
        let (Queue { tenant, workflow, agents }, rank) = found.last().unwrap_or(&first);
        let mut rows = select.query(params![tenant.as_str(), workflow.as_str(), agents, rank])?;
        let Some(row) = rows.next()? else { break };
        let next = (queue(row, 0)?, row.get(3)?);
        drop(rows);
        found.push(next);
    }
    Ok(found)
}

fn queue(row: &Row<'_>, first: usize) -> Result<Queue, Fault> {
    Ok(Queue {
        tenant: row.get::<_, String>(first)?.into(),
        workflow: row.get::<_, String>(first + 1)?.into(),
        agents: row.get(first + 2)?,
    })
}

/// Offers what a statement finds; answers how many those are.
fn offer(
    db: &Connection,
    turns: &mut Turns<'_, FoundRun>,
    request: &ClaimRequest,
    sql: &str,
    params: &[&dyn ToSql],
) -> Result<usize, Fault> {
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let due = DueRun {
            queue: queue(row, 4)?,
            rank: row.get(7)?,
            wake_at: time(row, 8)?,
            has_place: row.get(9)?,
        };
        let holder = row.get::<_, Option<String>>(3)?.map(HostId::from);
        let before = Tenure { epoch: unsigned(row, 2)?, holder, ..Tenure::default() };
        let claim = before.claimed(row.get::<_, String>(1)?.into(), request);
        turns.offer(due, (row.get(0)?, claim));
        count += 1;
    }
    Ok(count)
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
