//! Lists of runs for people: newest first, page by page.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use callboard_engine::{Filter, KeyMode, Listed, Scope, Spent, USAGE};
use callboard_protocol::{RosterId, RunCost, RunMetrics, RunStatus, RunTokens, Timestamp};

use super::fault::Fault;
use super::rest::{REST, rest};
use super::rows::{in_scope, scope_params, signed, status, time, unsigned};

pub(super) const TAGS: &str = "SELECT tag FROM run_tags WHERE run = ?1 ORDER BY place";

pub(super) const USED: &str =
    "SELECT coalesce(payload ->> 'inputTokens', 0), coalesce(payload ->> 'outputTokens', 0),
         payload ->> 'costEstimateUsd'
     FROM events WHERE run = ?1 AND kind = 'provider.usage'";

pub(super) fn list(db: &Connection, scope: &Scope, filter: &Filter) -> Result<Vec<Listed>, Fault> {
    let (sql, values) = statement(scope, filter);
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut listed = Vec::new();
    while let Some(row) = rows.next()? {
        listed.push(line(db, row)?);
    }
    Ok(listed)
}

/// The list in SQL, and its values. The table that leads has an index for what is asked for, in the order of the list;
/// only the conditions that the filter asks for are there, so that SQLite can choose it.
pub(super) fn statement(scope: &Scope, filter: &Filter) -> (String, Vec<Value>) {
    let lead = match filter {
        Filter { tag: Some(tag), .. } => Some(("run_tags", "tag", tag)),
        Filter { agent: Some(agent), .. } => Some(("run_agents", "agent", agent)),
        _ => None,
    };
    let (mut from, mut order, mut led, mut values) = (
        "runs".to_owned(),
        ("runs.created_at".to_owned(), "runs.id".to_owned()),
        String::new(),
        Vec::new(),
    );
    if let Some((table, column, value)) = lead {
        from = format!("{table} CROSS JOIN runs ON runs.id = {table}.run");
        order = (format!("{table}.created_at"), format!("{table}.run"));
        led = format!("{table}.tenant = ? AND {table}.test = ? AND {table}.{column} = ? AND ");
        let (tenant, test, _) = scope_params(scope);
        values.extend([tenant.to_owned().into(), Value::from(test), value.clone().into()]);
    }
    let (conditions, more) = conditions(scope, filter, &order);
    values.extend(more);
    values.push(signed(filter.limit as u64).into());
    let (at, id) = order;
    let sql = format!(
        "SELECT runs.run_id, runs.workflow_id, runs.status, runs.created_at, runs.updated_at, runs.roster_id,
             runs.trigger_source,
             runs.id, {REST}
         FROM {from} WHERE {led}{conditions} ORDER BY {at} DESC, {id} DESC LIMIT ?"
    );
    (sql, values)
}

/// The conditions in SQL and their values, for a list in this order.
fn conditions(scope: &Scope, filter: &Filter, (at, id): &(String, String)) -> (String, Vec<Value>) {
    let (mut conditions, mut values) = in_scope(scope);
    let mut also = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push_str(" AND ");
            conditions.push_str(condition);
            values.push(value);
        }
    };
    let status = filter.status.map(|status| status.as_str().to_owned());
    // The words of the partial index, or SQLite would not use it.
    let not_completed = "runs.status <> 'completed' AND runs.status = ?";
    let is_completed = filter.status == Some(RunStatus::Completed);
    also(if is_completed { "runs.status = ?" } else { not_completed }, status.map(Value::from));
    also(
        "runs.workflow_id = ?",
        filter.workflow.as_ref().map(|workflow| workflow.to_string().into()),
    );
    also("runs.run_id = ?", filter.run.as_ref().map(|run| run.to_string().into()));
    also("runs.roster_id = ?", filter.member.as_ref().map(|member| member.to_string().into()));
    let of_agent = "runs.id IN (SELECT run FROM run_agents AS agents WHERE agents.agent = ?)";
    // The tag leads where both are asked for.
    also(of_agent, filter.agent.clone().filter(|_| filter.tag.is_some()).map(Value::from));
    also(&format!("{at} >= ?"), filter.since.map(|since| since.as_millis().into()));
    also(&format!("{at} < ?"), filter.until.map(|until| until.as_millis().into()));
    if let Some(before) = &filter.before {
        // A cursor that the caller may not see has no position, so the list after it is empty.
        let (visible, scope_values) = in_scope(scope);
        conditions.push_str(&format!(
            " AND ({at}, {id}) < (SELECT runs.created_at, runs.id FROM runs WHERE {visible} AND runs.run_id = ?)"
        ));
        values.extend(scope_values);
        values.push(before.to_string().into());
    }
    (conditions, values)
}

fn in_scope(scope: &Scope) -> (String, Vec<Value>) {
    let mut conditions = "runs.tenant = ? AND runs.test = ?".to_owned();
    let mut values =
        vec![scope.tenant.to_string().into(), i64::from(scope.mode == KeyMode::Test).into()];
    if let Some(workspace) = &scope.workspace {
        conditions.push_str(" AND runs.workspace = ?");
        values.push(workspace.to_string().into());
    }
    (conditions, values)
}

fn line(db: &Connection, row: &Row<'_>) -> Result<Listed, Fault> {
    let id: i64 = row.get(7)?;
    Ok(Listed {
        run_id: row.get::<_, String>(0)?.into(),
        workflow_id: row.get::<_, String>(1)?.into(),
        status: status(row, 2)?,
        created_at: time(row, 3)?,
        updated_at: time(row, 4)?,
        roster_id: row.get::<_, Option<String>>(5)?.map(Into::into),
        trigger_source: row.get(6)?,
        tags: tags(db, id)?,
        metrics: metrics(db, id)?,
        priority: "",
        wait: None,
        rest: rest(row, 8)?,
    })
}

/// Most runs have none. Asked for by itself, because SQLite would sort the tags of each line of a list anew.
fn tags(db: &Connection, run: i64) -> Result<Vec<String>, Fault> {
    let mut select = db.prepare_cached(TAGS)?;
    let tags = select.query_map([run], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(tags)
}

/// What a run's model calls used. A part of their prices is no total.
fn metrics(db: &Connection, run: i64) -> Result<Option<RunMetrics>, Fault> {
    let mut select = db.prepare_cached(USED)?;
    let mut rows = select.query([run])?;
    let (mut tokens, mut usd, mut calls) = (RunTokens::default(), Some(0.0), 0);
    while let Some(row) = rows.next()? {
        calls += 1;
        tokens.input += unsigned(row, 0)?;
        tokens.output += unsigned(row, 1)?;
        usd = usd.zip(row.get::<_, Option<f64>>(2)?).map(|(sum, price)| sum + price);
    }
    let openwop_cost = RunCost { usd, tokens, ..RunCost::default() };
    Ok((calls > 0).then_some(RunMetrics { openwop_cost }))
}

/// What the models of a member's runs were paid that began since then.
pub(super) fn spent(
    db: &Connection,
    scope: &Scope,
    member: &RosterId,
    since: Timestamp,
) -> Result<Spent, Fault> {
    let sql = concat!(
        "SELECT coalesce(sum(payload ->> 'inputTokens'), 0), coalesce(sum(payload ->> 'outputTokens'), 0),
             total(payload ->> 'costEstimateUsd')
         FROM runs JOIN events ON events.run = runs.id
         WHERE runs.roster_id = ?4 AND runs.created_at >= ?5 AND NOT runs.is_replay AND events.kind = ?6 AND ",
        in_scope!()
    );
    let (tenant, test, workspace) = scope_params(scope);
    let params = params![tenant, test, workspace, member.as_str(), since.as_millis(), USAGE];
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    let Some(row) = rows.next()? else { return Ok(Spent::default()) };
    Ok(Spent {
        input_tokens: unsigned(row, 0)?,
        output_tokens: unsigned(row, 1)?,
        cost_usd: row.get(2)?,
    })
}
