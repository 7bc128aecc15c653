//! Claims: taking due runs, renewing leases, releasing them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::Row;

use callboard_engine::{
    AtWork, Chosen, Claim, ClaimOrigin, ClaimRequest, Claimed, DueRun, Queue, Turns,
};
use callboard_protocol::{ENGINE_VERSION, RunId, Tenant, Timestamp};

use super::fault::Fault;
use super::latch;
use super::rows::{limit, millis, name, optional_time, signed, time, unsigned, value};
use super::session::{Params, Session};
use super::text::stored;

/// When the next run is due, and the runs that are due and not under a valid lease, the longest overdue first, and those
/// whose child has moved before all others.
pub(super) const DUE: &str = "WITH woken AS (SELECT DISTINCT run FROM wakes),
     due AS (
         (SELECT id, tenant, workflow_id, agents, priority, 0::bigint AS wake_at, lease_until IS NOT NULL FROM runs
          WHERE id IN (SELECT run FROM woken) AND ended_at IS NULL
              AND (lease_until IS NULL OR lease_until <= $2) AND engine_version <= $4
          LIMIT $5)
         UNION ALL
         (SELECT id, tenant, workflow_id, agents, priority, wake_at, lease_until IS NOT NULL FROM runs
          WHERE wake_at <= $1 AND (lease_until IS NULL OR lease_until <= $2) AND engine_version <= $4
              AND id NOT IN (SELECT run FROM woken)
          ORDER BY wake_at, id LIMIT $3))
     SELECT due.*, next.at FROM (SELECT min(wake_at) AS at FROM runs WHERE wake_at > $1) AS next
     LEFT JOIN due ON true ORDER BY due.wake_at, due.id";

/// Those whose child has moved, and those whose holder was lost.
const FIRST: &str = "SELECT id, tenant, workflow_id, agents, priority,
         CASE WHEN lease_until IS NULL THEN 0 ELSE wake_at END AS wake_at, lease_until IS NOT NULL FROM runs
     WHERE ended_at IS NULL AND engine_version <= $4 AND (
         (id IN (SELECT run FROM wakes) AND (lease_until IS NULL OR lease_until <= $2))
         OR (lease_until IS NOT NULL AND lease_until <= $2 AND wake_at <= $1))
     ORDER BY wake_at, id LIMIT $3";

/// Every queue that has runs which nobody holds, with their priority: each is one step, however many runs it has.
const QUEUES: &str = "WITH RECURSIVE queues AS (
         (SELECT tenant, workflow_id, agents, priority FROM runs
          WHERE lease_until IS NULL AND wake_at IS NOT NULL
          ORDER BY tenant, workflow_id, agents, priority LIMIT 1)
         UNION ALL
         SELECT later.* FROM queues, LATERAL (
             SELECT tenant, workflow_id, agents, priority FROM runs
             WHERE lease_until IS NULL AND wake_at IS NOT NULL
                 AND (runs.tenant, runs.workflow_id, runs.agents, runs.priority)
                     > (queues.tenant, queues.workflow_id, queues.agents, queues.priority)
             ORDER BY tenant, workflow_id, agents, priority LIMIT 1) AS later)
     SELECT * FROM queues LIMIT $1";

/// The longest overdue of each of the given queues.
const QUEUED: &str = "SELECT due.* FROM unnest($4::text[], $5::text[], $6::text[], $7::integer[], $8::bigint[])
         AS queue (tenant, workflow_id, agents, priority, most), LATERAL (
             SELECT id, tenant, workflow_id, agents, priority, wake_at, false FROM runs
             WHERE runs.tenant = queue.tenant AND runs.workflow_id = queue.workflow_id
                 AND runs.agents = queue.agents AND runs.priority = queue.priority
                 AND lease_until IS NULL AND wake_at IS NOT NULL AND wake_at <= $1 AND engine_version <= $2
             ORDER BY wake_at, id LIMIT least(queue.most, $3)) AS due";

const HELD: &str =
    "SELECT tenant, workflow_id, agents, count(*) FROM runs WHERE lease_until IS NOT NULL
     GROUP BY tenant, workflow_id, agents";

/// Takes those of the chosen that nobody else is taking. The wakes that are seen here were written by appends that the
/// new holder sees; a later one stays.
const TAKE: &str = "WITH free AS MATERIALIZED (
         SELECT id, holder IS NOT NULL AS was_held FROM runs
         WHERE id = ANY($1) AND (lease_until IS NULL OR lease_until <= $2)
             AND (wake_at <= $3 OR EXISTS (SELECT 1 FROM wakes WHERE wakes.run = runs.id)) AND ended_at IS NULL
         ORDER BY id FOR UPDATE SKIP LOCKED),
     heard AS (DELETE FROM wakes USING free WHERE wakes.run = free.id)
     UPDATE runs SET holder = $4, epoch = runs.epoch + 1, lease_until = $5, wake_at = $5
     FROM free WHERE runs.id = free.id
     RETURNING runs.id, runs.run_id, runs.epoch, free.was_held, runs.tenant";

/// How often a claimer looks again when others have taken all that it had chosen.
const LOOKS: usize = 8;

/// With limits, hosts take turns: each sees what the one before has taken.
pub(super) async fn claim(session: &Session, request: &ClaimRequest) -> Result<Claimed, Fault> {
    if request.limits.is_empty() {
        return claim_now(session, request).await;
    }
    session.begin().await?;
    latch::hold(session, &["claims"]).await?;
    let claimed = claim_now(session, request).await?;
    session.commit().await?;
    Ok(claimed)
}

async fn claim_now(session: &Session, request: &ClaimRequest) -> Result<Claimed, Fault> {
    let mut claimed = Claimed::default();
    for look in 0..LOOKS {
        let (Chosen { runs, has_more, held_back }, next) = choose(session, request).await?;
        if look == 0 {
            claimed.next = next;
        }
        let chosen: Vec<i64> = runs.into_iter().map(|(_, id)| id).collect();
        let mut taken = take(session, request, &chosen).await?;
        (claimed.has_more, claimed.held_back) = (has_more, held_back);
        // The database answers in no order.
        for id in &chosen {
            if let Some((claim, tenant)) = taken.remove(id) {
                claimed.claims.push(claim);
                claimed.tenants.push(tenant);
            }
        }
        if chosen.is_empty() || !claimed.claims.is_empty() {
            break;
        }
    }
    Ok(claimed)
}

/// Whose turn it is, what others wait for, and when the next run is due.
async fn choose(
    session: &Session,
    request: &ClaimRequest,
) -> Result<(Chosen<i64>, Option<Timestamp>), Fault> {
    let at_work = match request.limits.is_empty() {
        true => AtWork::default(),
        false => at_work(session).await?,
    };
    let (at, lapsed_at) = (request.at.as_millis(), request.lapsed_at.as_millis());
    let engine = i32::try_from(ENGINE_VERSION).unwrap_or(i32::MAX);
    let (few, many) = (limit(request.most + 1), limit(Turns::<i64>::MOST_LOOKED_AT));
    let mut rows = session.rows(DUE, &[&at, &lapsed_at, &few, &engine, &many]).await?;
    let next = rows.first().map_or(Ok(None), |row| optional_time(row, 7))?;
    // Where nothing is due, a row stands for what comes next alone.
    if let Some(row) = rows.first()
        && value::<Option<i64>>(row, 0)?.is_none()
    {
        rows.clear();
    }
    let mut turns = Turns::new(request, at_work.clone());
    // Most of the time no more is due than can be taken.
    if rows.len() <= request.most {
        offer(&mut turns, &rows, &mut HashSet::new())?;
        return Ok((turns.chosen(), next));
    }
    let mut turns = Turns::new(request, at_work);
    let mut offered = HashSet::new();
    let first = session.rows(FIRST, &[&at, &lapsed_at, &many, &engine]).await?;
    offer(&mut turns, &first, &mut offered)?;
    let (mut tenants, mut workflows, mut agents, mut ranks, mut rooms) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in session.rows(QUEUES, &[&many]).await? {
        let rank: i32 = value(&row, 3)?;
        let room = turns.room(&queue(&row, 0)?, rank);
        if room > 0 {
            tenants.push(value::<String>(&row, 0)?);
            workflows.push(value::<String>(&row, 1)?);
            agents.push(value::<String>(&row, 2)?);
            ranks.push(rank);
            rooms.push(limit(room));
        }
    }
    let each = limit((Turns::<i64>::MOST_LOOKED_AT / tenants.len().max(1)).max(1));
    let of: Params<'_> = &[&at, &engine, &each, &tenants, &workflows, &agents, &ranks, &rooms];
    let queued = session.rows(QUEUED, of).await?;
    offer(&mut turns, &queued, &mut offered)?;
    Ok((Chosen { has_more: true, ..turns.chosen() }, next))
}

async fn at_work(session: &Session) -> Result<AtWork, Fault> {
    let rows = session.rows(HELD, &[]).await?;
    let counted = |row: &Row| -> Result<(Queue, usize), Fault> {
        Ok((queue(row, 0)?, usize::try_from(unsigned(row, 3)?).unwrap_or(usize::MAX)))
    };
    Ok(AtWork::of(rows.iter().map(counted).collect::<Result<Vec<_>, _>>()?))
}

fn queue(row: &Row, first: usize) -> Result<Queue, Fault> {
    let (tenant, workflow) = (name(row, first)?.into(), name(row, first + 1)?.into());
    Ok(Queue { tenant, workflow, agents: name(row, first + 2)? })
}

/// Offers each row once.
fn offer(
    turns: &mut Turns<'_, i64>,
    rows: &[Row],
    offered: &mut HashSet<i64>,
) -> Result<(), Fault> {
    for row in rows {
        let id = value(row, 0)?;
        if offered.insert(id) {
            let (queue, rank) = (queue(row, 1)?, value(row, 4)?);
            let (wake_at, has_place) = (time(row, 5)?, value(row, 6)?);
            turns.offer(DueRun { queue, rank, wake_at, has_place }, id);
        }
    }
    Ok(())
}

type Taken = HashMap<i64, (Claim, Tenant)>;

async fn take(session: &Session, request: &ClaimRequest, chosen: &[i64]) -> Result<Taken, Fault> {
    if chosen.is_empty() {
        return Ok(Taken::new());
    }
    let (at, lapsed_at) = (request.at.as_millis(), request.lapsed_at.as_millis());
    let (host, until) = (stored(request.host.as_str()), request.until.as_millis());
    let rows = session.rows(TAKE, &[&chosen, &lapsed_at, &at, &&*host, &until]).await?;
    let read = |row: &Row| {
        let claim = Claim {
            run: name(row, 1)?.into(),
            host: request.host.clone(),
            epoch: unsigned(row, 2)?,
            origin: if value(row, 3)? { ClaimOrigin::Lost } else { ClaimOrigin::Free },
        };
        Ok((value(row, 0)?, (claim, name(row, 4)?.into())))
    };
    rows.iter().map(read).collect()
}

/// Waits for no lock while it holds others: a run that is being written is renewed a moment later.
const RENEW: &str = "WITH given AS (
         SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) AS given (run_id, holder, epoch)),
     held AS MATERIALIZED (
         SELECT runs.id, runs.run_id FROM runs JOIN given ON runs.run_id = given.run_id
             AND runs.holder = given.holder AND runs.epoch = given.epoch AND runs.lease_until IS NOT NULL
         FOR NO KEY UPDATE OF runs SKIP LOCKED),
     renewed AS (
         UPDATE runs SET lease_until = $4, wake_at = $4 FROM held WHERE runs.id = held.id RETURNING runs.id)
     SELECT held.run_id FROM held JOIN renewed USING (id)";

/// Those that stay locked are asked about one by one.
const RENEWALS: usize = 3;

pub(super) async fn renew(
    session: &Session,
    claims: &[Claim],
    until: Timestamp,
) -> Result<Vec<RunId>, Fault> {
    let mut left: Vec<&Claim> = claims.iter().collect();
    for turn in 0..RENEWALS {
        if left.is_empty() {
            return Ok(Vec::new());
        }
        if turn > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let runs: Vec<_> = left.iter().map(|claim| stored(claim.run.as_str())).collect();
        let hosts: Vec<_> = left.iter().map(|claim| stored(claim.host.as_str())).collect();
        let epochs: Vec<i64> = left.iter().map(|claim| signed(claim.epoch)).collect();
        let rows = session.rows(RENEW, &[&runs, &hosts, &epochs, &until.as_millis()]).await?;
        let renewed = rows.iter().map(|row| name(row, 0));
        let renewed = renewed.collect::<Result<std::collections::HashSet<_>, _>>()?;
        left.retain(|claim| !renewed.contains(claim.run.as_str()));
    }
    let mut lost = Vec::new();
    for claim in left {
        let sql = "UPDATE runs SET lease_until = $4, wake_at = $4
             WHERE run_id = $1 AND holder = $2 AND epoch = $3 AND lease_until IS NOT NULL";
        let (run, host) = (stored(claim.run.as_str()), stored(claim.host.as_str()));
        let (epoch, until) = (signed(claim.epoch), until.as_millis());
        if session.execute(sql, &[&&*run, &&*host, &epoch, &until]).await? == 0 {
            lost.push(claim.run.clone());
        }
    }
    Ok(lost)
}

/// A claim that is no longer held has nothing to give back, which is what the caller wanted. What is due at once is due
/// since the run moved last: the queue's index is read from its beginning, where dead entries would gather.
pub(super) async fn release(
    session: &Session,
    claim: &Claim,
    seen: Option<u64>,
    wake_at: Option<Timestamp>,
) -> Result<bool, Fault> {
    let sql = "UPDATE runs SET holder = NULL, lease_until = NULL,
             wake_at = CASE WHEN version <> $5 THEN updated_at ELSE $4 END
         WHERE run_id = $1 AND holder = $2 AND epoch = $3 AND lease_until IS NOT NULL
         RETURNING coalesce(version <> $5, false) OR EXISTS (SELECT 1 FROM wakes WHERE wakes.run = runs.id)";
    let (run, host) = (stored(claim.run.as_str()), stored(claim.host.as_str()));
    let (epoch, seen) = (signed(claim.epoch), seen.map(signed));
    let params: Params<'_> = &[&&*run, &&*host, &epoch, &millis(wake_at), &seen];
    session.row(sql, params).await?.map_or(Ok(false), |row| value(&row, 0))
}
