//! Open questions: replaced with the appends that change them, listed across runs.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use callboard_core::InterruptView;
use callboard_engine::{InboxFilter, InboxItem, Scope, StoreError};
use callboard_protocol::InterruptKind;

use super::fault::Fault;
use super::rows::{execute, millis, optional_time, scope_params, signed, time};

/// Makes these the questions of a run.
pub(super) fn replace(
    db: &Connection,
    run: i64,
    interrupts: &[InterruptView],
) -> Result<(), Fault> {
    execute(db, "DELETE FROM interrupts WHERE run = ?1", params![run])?;
    for interrupt in interrupts {
        insert(db, run, interrupt)?;
    }
    Ok(())
}

fn insert(db: &Connection, run: i64, interrupt: &InterruptView) -> Result<(), Fault> {
    let unwritable = |error: serde_json::Error| {
        StoreError::Unavailable(format!("interrupt {} cannot be written: {error}", interrupt.id))
    };
    let schema = interrupt.resume_schema.as_ref().map(serde_json::to_string).transpose();
    execute(
        db,
        "INSERT INTO interrupts (run, tenant, test, interrupt_id, node, kind, key, data, resume_schema, requested_at,
             expires_at, requires_auth, votes)
         SELECT id, tenant, test, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM runs WHERE id = ?1",
        params![
            run,
            interrupt.id,
            interrupt.node.as_str(),
            interrupt.kind.as_str(),
            interrupt.key,
            interrupt.data.to_string(),
            schema.map_err(unwritable)?,
            interrupt.requested_at.as_millis(),
            millis(interrupt.expires_at),
            interrupt.requires_auth,
            serde_json::to_string(&interrupt.votes).map_err(unwritable)?,
        ],
    )?;
    Ok(())
}

pub(super) fn list(
    db: &Connection,
    scope: &Scope,
    filter: &InboxFilter,
) -> Result<Vec<InboxItem>, Fault> {
    let (sql, values) = statement(scope, filter);
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(item(row)?);
    }
    Ok(items)
}

/// The list in SQL, and its values. Only the conditions that the filter asks for are there, so that
/// SQLite can choose an index by them.
pub(super) fn statement(scope: &Scope, filter: &InboxFilter) -> (String, Vec<Value>) {
    let (tenant, test, workspace) = scope_params(scope);
    let mut conditions = "asked.tenant = ? AND asked.test = ?".to_owned();
    let mut values: Vec<Value> = vec![tenant.to_owned().into(), test.into()];
    let mut also = |condition: &str, given: Vec<Value>| {
        if !given.is_empty() {
            conditions.push_str(" AND ");
            conditions.push_str(condition);
            values.extend(given);
        }
    };
    let one = |text: Option<&str>| -> Vec<Value> {
        text.map(|text| text.to_owned().into()).into_iter().collect()
    };
    also("runs.workspace = ?", one(workspace));
    also("asked.kind = ?", one(filter.kind.map(InterruptKind::as_str)));
    also("runs.workflow_id = ?", one(filter.workflow.as_ref().map(|id| id.as_str())));
    also("runs.run_id = ?", one(filter.run.as_ref().map(|id| id.as_str())));
    also("runs.roster_id = ?", one(filter.member.as_ref().map(|id| id.as_str())));
    let place = filter.after.as_ref().map(|after| {
        vec![after.requested_at.as_millis().into(), after.interrupt_id.clone().into()]
    });
    also("(asked.requested_at, asked.interrupt_id) > (?, ?)", place.unwrap_or_default());
    values.push(signed(filter.limit as u64).into());
    let sql = format!(
        "SELECT runs.run_id, runs.workflow_id, asked.interrupt_id, asked.node, asked.kind, asked.key, asked.data,
             asked.resume_schema, asked.requested_at, asked.expires_at, asked.requires_auth, asked.votes
         FROM interrupts AS asked JOIN runs ON runs.id = asked.run
         WHERE {conditions} ORDER BY asked.requested_at, asked.interrupt_id LIMIT ?"
    );
    (sql, values)
}

fn item(row: &Row<'_>) -> Result<InboxItem, Fault> {
    let id: String = row.get(2)?;
    let unreadable =
        |why: &dyn std::fmt::Display| Fault::unreadable(format!("interrupt {id}"), why);
    let kind: String = row.get(4)?;
    let (data, votes): (String, String) = (row.get(6)?, row.get(11)?);
    let schema: Option<String> = row.get(7)?;
    let schema = schema.as_deref().map(serde_json::from_str).transpose();
    let interrupt = InterruptView {
        node: row.get::<_, String>(3)?.into(),
        kind: InterruptKind::from_name(&kind)
            .ok_or_else(|| unreadable(&format!("{kind:?} is no kind")))?,
        key: row.get(5)?,
        data: serde_json::from_str(&data).map_err(|error| unreadable(&error))?,
        resume_schema: schema.map_err(|error| unreadable(&error))?,
        requested_at: time(row, 8)?,
        expires_at: optional_time(row, 9)?,
        requires_auth: row.get(10)?,
        votes: serde_json::from_str(&votes).map_err(|error| unreadable(&error))?,
        id,
    };
    Ok(InboxItem {
        run: row.get::<_, String>(0)?.into(),
        workflow: row.get::<_, String>(1)?.into(),
        interrupt,
    })
}
