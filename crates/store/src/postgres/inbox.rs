//! Open questions: replaced with the appends that change them, listed across runs.

use tokio_postgres::Row;

use callboard_core::{InterruptView, is_budget_question};
use callboard_engine::{InboxFilter, InboxItem, Scope, StoreError};
use callboard_protocol::{InterruptKind, RunId};

use super::fault::Fault;
use super::rows::{Statement, limit, millis, name, optional_time, time, value};
use super::session::Session;
use super::text::stored;

/// Makes these the questions of a run.
pub(super) async fn replace(
    session: &Session,
    run: &RunId,
    interrupts: &[InterruptView],
) -> Result<(), Fault> {
    let run = stored(run.as_str());
    let sql = "DELETE FROM interrupts WHERE run = (SELECT id FROM runs WHERE run_id = $1)";
    session.execute(sql, &[&&*run]).await?;
    for interrupt in interrupts {
        insert(session, &run, interrupt).await?;
    }
    Ok(())
}

async fn insert(session: &Session, run: &str, interrupt: &InterruptView) -> Result<(), Fault> {
    let unwritable = |error: serde_json::Error| {
        StoreError::Unavailable(format!("interrupt {} cannot be written: {error}", interrupt.id))
    };
    let schema = interrupt.resume_schema.as_ref().map(serde_json::to_string).transpose();
    let sql = "INSERT INTO interrupts (run, tenant, test, interrupt_id, node, kind, key, data, resume_schema,
             requested_at, expires_at, requires_auth, votes, about_budget)
         SELECT id, tenant, test, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 FROM runs WHERE run_id = $1";
    session
        .execute(
            sql,
            &[
                &run,
                &stored(&interrupt.id),
                &stored(interrupt.node.as_str()),
                &interrupt.kind.as_str(),
                &stored(&interrupt.key),
                &interrupt.data.to_string(),
                &schema.map_err(unwritable)?,
                &interrupt.requested_at.as_millis(),
                &millis(interrupt.expires_at),
                &interrupt.requires_auth,
                &serde_json::to_string(&interrupt.votes).map_err(unwritable)?,
                &is_budget_question(&interrupt.data),
            ],
        )
        .await?;
    Ok(())
}

pub(super) async fn list(
    session: &Session,
    scope: &Scope,
    filter: &InboxFilter,
) -> Result<Vec<InboxItem>, Fault> {
    let rows = statement(scope, filter).rows(session).await?;
    rows.iter().map(item).collect()
}

pub(super) fn statement(scope: &Scope, filter: &InboxFilter) -> Statement {
    let mut statement = Statement::default();
    statement.push(
        "SELECT runs.run_id, runs.workflow_id, asked.interrupt_id, asked.node, asked.kind, asked.key, asked.data,
             asked.resume_schema, asked.requested_at, asked.expires_at, asked.requires_auth, asked.votes
         FROM interrupts AS asked JOIN runs ON runs.id = asked.run WHERE ",
    );
    statement.visible("asked", &Scope { workspace: None, ..scope.clone() });
    let workspace = scope.workspace.as_ref().map(|workspace| workspace.as_str());
    statement.bind_some(" AND runs.workspace = ", workspace);
    statement.bind_some(" AND asked.kind = ", filter.kind.map(InterruptKind::as_str));
    let workflow = filter.workflow.as_ref().map(|workflow| workflow.as_str());
    statement.bind_some(" AND runs.workflow_id = ", workflow);
    statement.bind_some(" AND runs.run_id = ", filter.run.as_ref().map(|run| run.as_str()));
    let member = filter.member.as_ref().map(|member| member.as_str());
    statement.bind_some(" AND runs.roster_id = ", member);
    if let Some(after) = &filter.after {
        let at = after.requested_at.as_millis();
        statement.bind(" AND (asked.requested_at, asked.interrupt_id) > (", at);
        statement.bind_name(", ", &after.interrupt_id);
        statement.push(")");
    }
    let order = " ORDER BY asked.requested_at, asked.interrupt_id LIMIT ";
    statement.bind(order, limit(filter.limit));
    statement
}

fn item(row: &Row) -> Result<InboxItem, Fault> {
    let id = name(row, 2)?;
    let unreadable =
        |why: &dyn std::fmt::Display| Fault::unreadable(format!("interrupt {id}"), why);
    let (kind, data, votes): (&str, &str, &str) =
        (row.try_get(4)?, row.try_get(6)?, row.try_get(11)?);
    let schema: Option<&str> = row.try_get(7)?;
    let schema = schema.map(serde_json::from_str).transpose();
    let interrupt = InterruptView {
        node: name(row, 3)?.into(),
        kind: InterruptKind::from_name(kind)
            .ok_or_else(|| unreadable(&format!("{kind:?} is no kind")))?,
        key: name(row, 5)?,
        data: serde_json::from_str(data).map_err(|error| unreadable(&error))?,
        resume_schema: schema.map_err(|error| unreadable(&error))?,
        requested_at: time(row, 8)?,
        expires_at: optional_time(row, 9)?,
        requires_auth: value(row, 10)?,
        votes: serde_json::from_str(votes).map_err(|error| unreadable(&error))?,
        id,
    };
    let run = name(row, 0)?.into();
    Ok(InboxItem { run, workflow: name(row, 1)?.into(), interrupt })
}
