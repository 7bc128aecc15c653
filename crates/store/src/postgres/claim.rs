//! Claims: taking due runs, renewing leases, releasing them.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::Row;

use callboard_engine::{Claim, ClaimOrigin, ClaimRequest, Claimed, Turns};
use callboard_protocol::{ENGINE_VERSION, RunId, Tenant, Timestamp};

use super::fault::Fault;
use super::rows::{limit, millis, name, optional_time, signed, unsigned, value};
use super::session::{Params, Session};
use super::text::stored;

/// Runs that are due and not under a valid lease, the longest overdue first, and those whose child has moved before all
/// others. Of one tenant no more are read than can be taken, but all are counted.
pub(super) const DUE: &str = "WITH woken AS (SELECT DISTINCT run FROM wakes),
     due AS (
         (SELECT id, run_id, tenant, 0 AS wake_at FROM runs
          WHERE id IN (SELECT run FROM woken) AND ended_at IS NULL
              AND (lease_until IS NULL OR lease_until <= $2) AND engine_version <= $5)
         UNION ALL
         (SELECT id, run_id, tenant, wake_at FROM runs
          WHERE wake_at <= $1 AND (lease_until IS NULL OR lease_until <= $2) AND engine_version <= $5
              AND id NOT IN (SELECT run FROM woken)
          ORDER BY wake_at, id LIMIT $3)),
     ranked AS (
         SELECT id, tenant, wake_at, row_number() OVER (PARTITION BY tenant ORDER BY wake_at, id) AS turn,
             count(*) OVER () AS total
         FROM due)
     SELECT id, tenant, total FROM ranked WHERE turn <= $4 ORDER BY wake_at, id";

pub(super) const NEXT: &str = "SELECT min(wake_at) FROM runs WHERE wake_at > $1";

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

pub(super) async fn claim(session: &Session, request: &ClaimRequest) -> Result<Claimed, Fault> {
    let next = session.row(NEXT, &[&request.at.as_millis()]).await?;
    let next = next.map_or(Ok(None), |row| optional_time(&row, 0))?;
    let mut claimed = Claimed { next, ..Claimed::default() };
    for _ in 0..LOOKS {
        let (chosen, has_more) = choose(session, request).await?;
        let mut taken = take(session, request, &chosen).await?;
        claimed.has_more = has_more;
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

/// Whose turn it is, and whether others are due.
async fn choose(session: &Session, request: &ClaimRequest) -> Result<(Vec<i64>, bool), Fault> {
    let looked_at = limit(Turns::<i64>::MOST_LOOKED_AT);
    let (at, lapsed_at) = (request.at.as_millis(), request.lapsed_at.as_millis());
    let engine = i32::try_from(ENGINE_VERSION).unwrap_or(i32::MAX);
    let params: Params<'_> = &[&at, &lapsed_at, &looked_at, &limit(request.most), &engine];
    let rows = session.rows(DUE, params).await?;
    let total = rows.first().map_or(Ok(0), |row| unsigned(row, 2))?;
    let mut turns = Turns::new(request);
    for row in &rows {
        turns.offer(&name(row, 1)?, || value(row, 0))?;
    }
    let (chosen, has_more) = turns.chosen();
    Ok((chosen, has_more || total > rows.len() as u64))
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
