//! What calls under way may use: set aside before the call, gone with the row that ends it.

use rusqlite::{Connection, params};

use callboard_engine::{Claim, KeyMode, Purse, Row, Spent, call_over};
use callboard_protocol::{NodeId, RunId};

use super::sum;
use crate::sqlite::fault::Fault;
use crate::sqlite::rows::{execute, signed};

/// Behind everything that is there: a new row has a greater id than all others.
pub(super) fn set(
    db: &Connection,
    claim: &Claim,
    node: &NodeId,
    day: i64,
    estimate: Spent,
) -> Result<(), Fault> {
    // What counts no longer is not worth a look at every call.
    let sql = "DELETE FROM set_aside WHERE id IN (SELECT set_aside.id FROM set_aside
         JOIN runs ON runs.id = set_aside.run
         WHERE runs.epoch <> set_aside.epoch OR runs.status IN ('completed', 'failed', 'cancelled'))";
    execute(db, sql, params![])?;
    let Spent { input_tokens, output_tokens, cost_usd } = estimate;
    let (input, output) = (signed(input_tokens), signed(output_tokens));
    let (run, node, epoch) = (claim.run.as_str(), node.as_str(), signed(claim.epoch));
    execute(
        db,
        "INSERT OR REPLACE INTO set_aside (run, node, epoch, day, input_tokens, output_tokens, cost_usd)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7 FROM runs WHERE run_id = ?1",
        params![run, node, epoch, day, input, output, cost_usd],
    )?;
    Ok(())
}

pub(super) fn before(
    db: &Connection,
    purse: &Purse,
    day: i64,
    run: &RunId,
    node: &NodeId,
) -> Result<Spent, Fault> {
    let mut select = db.prepare_cached(
        "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), total(cost_usd)
         FROM set_aside JOIN runs ON runs.id = set_aside.run
         WHERE tenant = ?1 AND test = ?2 AND day = ?3 AND (?4 IS NULL OR charged_to = ?4)
             AND runs.epoch = set_aside.epoch
             AND runs.status NOT IN ('completed', 'failed', 'cancelled', 'paused')
             AND set_aside.id < (SELECT own.id FROM set_aside AS own JOIN runs ON runs.id = own.run
                 WHERE runs.run_id = ?5 AND own.node = ?6)",
    )?;
    let (tenant, test) = (purse.tenant.as_str(), purse.mode == KeyMode::Test);
    let member = purse.member.as_ref().map(|member| member.as_str());
    let params = params![tenant, test, day, member, run.as_str(), node.as_str()];
    let mut rows = select.query(params)?;
    sum(rows.next()?)
}

/// Forgets what the rows that are being appended put an end to.
pub(super) fn forget(db: &Connection, run: i64, rows: &[Row]) -> Result<(), Fault> {
    for node in rows.iter().filter_map(call_over) {
        let sql = "DELETE FROM set_aside WHERE run = ?1 AND node = ?2";
        execute(db, sql, params![run, node.as_str()])?;
    }
    Ok(())
}
