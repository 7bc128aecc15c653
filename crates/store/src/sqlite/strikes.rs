//! Decisions about runs that did not come to their end.

use rusqlite::{Connection, params};

use callboard_protocol::RunId;

use super::fault::Fault;
use super::rows::execute;

pub(super) fn strike(db: &Connection, run: &RunId) -> Result<u32, Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO strikes (run, count) SELECT id, 1 FROM runs WHERE run_id = ?1
         ON CONFLICT (run) DO UPDATE SET count = count + 1 RETURNING count",
    )?;
    let mut rows = insert.query([run.as_str()])?;
    let count = rows.next()?.ok_or_else(|| Fault::unknown_run(run))?.get(0)?;
    // A statement that answers has done its work only when it is asked to the end.
    while rows.next()?.is_some() {}
    Ok(count)
}

pub(super) fn absolve(db: &Connection, run: &RunId) -> Result<(), Fault> {
    let id = params![run.as_str()];
    execute(
        db,
        "UPDATE strikes SET count = count - 1 WHERE run = (SELECT id FROM runs WHERE run_id = ?1)",
        id,
    )?;
    execute(
        db,
        "DELETE FROM strikes WHERE run = (SELECT id FROM runs WHERE run_id = ?1) AND count <= 0",
        id,
    )?;
    Ok(())
}

pub(super) fn struck(db: &Connection) -> Result<Vec<(RunId, u32)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT runs.run_id, strikes.count FROM strikes JOIN runs ON runs.id = strikes.run",
    )?;
    let rows = select.query_map([], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
