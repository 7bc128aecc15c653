//! Creating a run: birth record, head and whatever must be true with them.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, params};

use callboard_core::Birth;
use callboard_engine::{Claim, Queue, StoreError};

use super::fault::Fault;
use super::outcome;
use super::rows::{execute, millis, signed};
use super::short::shorten;
use crate::sealed::{SealedRun, unknown_run};

/// The conditions repeat the partial index's own, word for word, or SQLite would not use it.
pub(super) const ACTIVE_IN_SCOPE: &str = "SELECT run_id FROM runs
     WHERE tenant = ?1 AND test = ?2 AND scope_id = ?3
         AND scope_id IS NOT NULL AND status NOT IN ('completed', 'failed', 'cancelled') LIMIT 1";

pub(super) fn create(db: &Connection, run: &SealedRun) -> Result<(), Fault> {
    if let Some(outcome) = &run.outcome {
        outcome::keep(db, outcome, run.birth.created_at)?;
    }
    if run.exclusive {
        refuse_busy_scope(db, &run.birth)?;
    }
    let id = insert_head(db, run)?;
    execute(
        db,
        "INSERT INTO births (run, record, sealed_inputs, sealed_delivery, definition) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, record(run), run.sealed_inputs, run.sealed_delivery, definition_id(db, run)?],
    )?;
    let (tenant, test) = (run.birth.owner.tenant.as_str(), run.birth.test);
    let created_at = run.birth.created_at.as_millis();
    for (place, tag) in run.birth.tags.iter().enumerate() {
        let place = signed(place as u64);
        execute(
            db,
            "INSERT INTO run_tags (run, place, tag, tenant, test, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![id, place, tag, tenant, test, created_at],
        )?;
    }
    for agent in run.birth.agent_ids() {
        let sql = "INSERT INTO run_agents (run, agent, tenant, test, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
        execute(db, sql, params![id, agent, tenant, test, created_at])?;
    }
    Ok(())
}

/// Retention looks for the parent in the record of a child.
fn record(run: &SealedRun) -> Cow<'_, str> {
    match run.birth.parent {
        Some(_) => Cow::Borrowed(&run.record),
        None => shorten(&run.record),
    }
}

/// Answers the run's key in the other tables.
fn insert_head(db: &Connection, run: &SealedRun) -> Result<i64, Fault> {
    let SealedRun { birth, head, lease, .. } = run;
    let prefix = prefix(db, birth)?;
    let lease_until = lease.as_ref().map(|lease| lease.until);
    let inserted = execute(
        db,
        "INSERT INTO runs (run_id, tenant, workspace, test, workflow_id, scope_id, engine_version, stamped_version,
             created_at, updated_at, status, version, wake_at, holder, epoch, lease_until, prefix_of, prefix_length,
             is_replay, roster_id, trigger_source, charged_to, forked_from, agents, priority)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
             ?20, ?21, ?22, ?23, ?24, ?25)
         ON CONFLICT (run_id) DO NOTHING",
        params![
            birth.run_id.as_str(),
            birth.owner.tenant.as_str(),
            birth.owner.workspace.as_ref().map(|workspace| workspace.as_str()),
            birth.test,
            birth.workflow_id.as_str(),
            birth.scope_id,
            birth.engine_version,
            birth.stamped_version(),
            birth.created_at.as_millis(),
            head.updated_at.as_millis(),
            head.status.as_str(),
            signed(head.version),
            millis(lease_until.or(head.wake_at)),
            lease.as_ref().map(|lease| lease.host.as_str()),
            if lease.is_some() { signed(Claim::FIRST_EPOCH) } else { 0 },
            millis(lease_until),
            prefix.map(|prefix| prefix.of),
            prefix.map_or(0, |prefix| prefix.length),
            birth.is_replay(),
            birth.attribution.as_ref().map(|attribution| attribution.roster_id.as_str()),
            birth.attribution.as_ref().map(|attribution| attribution.trigger_source.as_str()),
            birth.charged_to.as_ref().map(|member| member.as_str()),
            prefix.map(|prefix| prefix.source),
            Queue::agents_of(birth),
            birth.rank(),
        ],
    )?;
    if inserted == 0 {
        return Err(StoreError::Conflict { run: birth.run_id.clone() }.into());
    }
    Ok(db.last_insert_rowid())
}

/// Where a fork's log begins.
#[derive(Clone, Copy)]
struct Prefix {
    /// The run that was forked.
    source: i64,
    /// The run that holds the events.
    of: i64,
    length: i64,
}

/// The run whose log a fork's begins with, and how much of it. One that lies within its source's own
/// prefix is read from where that comes from, so that a fork of a fork costs no further step.
fn prefix(db: &Connection, birth: &Birth) -> Result<Option<Prefix>, Fault> {
    let Some(fork) = &birth.fork else { return Ok(None) };
    let length = signed(fork.from);
    let mut select =
        db.prepare_cached("SELECT id, prefix_of, prefix_length FROM runs WHERE run_id = ?1")?;
    let mut source: (i64, Option<i64>, i64) = select
        .query_row([fork.source.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?
        .ok_or_else(|| unknown_run(&fork.source))?;
    let forked = source.0;
    let mut above =
        db.prepare_cached("SELECT id, prefix_of, prefix_length FROM runs WHERE id = ?1")?;
    while let (_, Some(earlier), shared) = source
        && length <= shared
    {
        source = above.query_row([earlier], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    }
    Ok(Some(Prefix { source: forked, of: source.0, length }))
}

fn definition_id(db: &Connection, run: &SealedRun) -> Result<i64, Fault> {
    let known = db
        .prepare_cached("SELECT id FROM definitions WHERE digest = ?1")?
        .query_row([&run.birth.definition], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    let sql = "INSERT INTO definitions (digest, source) VALUES (?1, ?2)";
    execute(db, sql, params![run.birth.definition, &*run.definition])?;
    Ok(db.last_insert_rowid())
}

fn refuse_busy_scope(db: &Connection, birth: &Birth) -> Result<(), Fault> {
    let active: Option<String> = db
        .prepare_cached(ACTIVE_IN_SCOPE)?
        .query_row(params![birth.owner.tenant.as_str(), birth.test, birth.scope_id], |row| {
            row.get(0)
        })
        .optional()?;
    match active {
        Some(active) => Err(StoreError::ScopeBusy { active: active.into() }.into()),
        None => Ok(()),
    }
}
