//! Lists of runs for people: newest first, page by page.

use tokio_postgres::Row;

use callboard_engine::{
    AskedQuestion, Filter, Listed, NewestEvent, Rest, Scope, Spent, USAGE, WaitedChild,
};
use callboard_protocol::{
    InterruptKind, NodeId, RosterId, RunCost, RunMetrics, RunStatus, RunTokens, Timestamp,
};

use super::fault::Fault;
use super::rows::{
    Statement, is_test, limit, name, names, optional_name, optional_time, status, time, unsigned,
    value,
};
use super::session::{Params, Session};
use super::text::stored;

pub(super) async fn list(
    session: &Session,
    scope: &Scope,
    filter: &Filter,
) -> Result<Vec<Listed>, Fault> {
    let rows = statement(scope, filter).rows(session).await?;
    rows.iter().map(line).collect()
}

/// What a line shows beside the run's own row. Each is found under the run's key: a line costs the same however many
/// runs there are.
const COLUMNS: &str = "SELECT runs.run_id, runs.workflow_id, runs.status, runs.created_at, runs.updated_at,
         runs.roster_id, runs.trigger_source,
         (SELECT array_agg(tag ORDER BY place) FROM run_tags AS tags WHERE tags.run = runs.id),
         used.input, used.output, used.calls, used.priced, used.usd,
         runs.holder IS NOT NULL,
         CASE WHEN EXISTS (SELECT 1 FROM wakes WHERE wakes.run = runs.id) THEN 0 ELSE runs.wake_at END,
         asked.node, asked.kind, asked.requested_at, asked.expires_at, asked.about_budget,
         folded.child_run, folded.child_node, folded.retrying,
         newest.kind, newest.node, newest.at, newest.payload, runs.agents, runs.priority";

const JOINED: &str = " LEFT JOIN LATERAL (
             SELECT coalesce(sum(input_tokens), 0)::bigint AS input, coalesce(sum(output_tokens), 0)::bigint AS output,
                 count(*) AS calls, count(cost_usd) AS priced, coalesce(sum(cost_usd), 0) AS usd
             FROM events WHERE events.run = runs.id AND events.kind = 'provider.usage') AS used ON true
         LEFT JOIN LATERAL (
             SELECT node, kind, requested_at, expires_at, about_budget FROM interrupts
             WHERE interrupts.run = runs.id AND runs.status LIKE 'waiting-%'
             ORDER BY requested_at, interrupt_id LIMIT 1) AS asked ON true
         LEFT JOIN snapshots AS folded ON folded.run = runs.id AND folded.version = runs.version
             AND runs.status IN ('running', 'cancelling')
         LEFT JOIN events AS newest ON newest.run = runs.id AND newest.sequence = runs.version - 1
             AND runs.status IN ('running', 'cancelling') AND newest.kind IN ('node.retried', 'node.dispatched')";

/// The table that leads has an index for what is asked for, in the order of the list.
pub(super) fn statement(scope: &Scope, filter: &Filter) -> Statement {
    let lead = match filter {
        Filter { tag: Some(tag), .. } => Some(("run_tags", "tag", tag)),
        Filter { agent: Some(agent), .. } => Some(("run_agents", "agent", agent)),
        _ => None,
    };
    let mut statement = Statement::default();
    statement.push(COLUMNS);
    let (at, id) = match lead {
        Some((table, column, value)) => {
            statement
                .push(&format!(" FROM {table} JOIN runs ON runs.id = {table}.run{JOINED} WHERE "));
            statement.visible(table, &Scope { workspace: None, ..scope.clone() });
            statement.bind_name(&format!(" AND {table}.{column} = "), value);
            statement.push(" AND ");
            (format!("{table}.created_at"), format!("{table}.run"))
        }
        None => {
            statement.push(&format!(" FROM runs{JOINED} WHERE "));
            ("runs.created_at".to_owned(), "runs.id".to_owned())
        }
    };
    statement.visible("runs", scope);
    conditions(&mut statement, scope, filter, (&at, &id));
    statement.bind(&format!(" ORDER BY {at} DESC, {id} DESC LIMIT "), limit(filter.limit));
    statement
}

fn conditions(statement: &mut Statement, scope: &Scope, filter: &Filter, (at, id): (&str, &str)) {
    if let Some(status) = filter.status {
        // The words of the partial indexes, or PostgreSQL would not use them.
        let by = match status {
            RunStatus::Completed => " AND runs.status = ",
            RunStatus::Failed | RunStatus::Cancelled => {
                " AND runs.ended_as <> 'completed' AND runs.ended_as = "
            }
            _ => " AND runs.ended_at IS NULL AND runs.status = ",
        };
        statement.bind(by, status.as_str());
    }
    let workflow = filter.workflow.as_ref().map(|workflow| workflow.as_str());
    statement.bind_some(" AND runs.workflow_id = ", workflow);
    statement.bind_some(" AND runs.run_id = ", filter.run.as_ref().map(|run| run.as_str()));
    let member = filter.member.as_ref().map(|member| member.as_str());
    statement.bind_some(" AND runs.roster_id = ", member);
    // The tag leads where both are asked for.
    if let Some(agent) = filter.agent.as_ref().filter(|_| filter.tag.is_some()) {
        statement.bind_name(
            " AND runs.id IN (SELECT run FROM run_agents AS agents WHERE agents.agent = ",
            agent,
        );
        statement.push(")");
    }
    if let Some(since) = filter.since {
        statement.bind(&format!(" AND {at} >= "), since.as_millis());
    }
    if let Some(until) = filter.until {
        statement.bind(&format!(" AND {at} < "), until.as_millis());
    }
    if let Some(before) = &filter.before {
        // A cursor that the caller may not see has no position, so the list after it is empty.
        let place =
            "SELECT cursor.created_at, cursor.id FROM runs AS cursor WHERE cursor.run_id = ";
        statement.bind_name(&format!(" AND ({at}, {id}) < ({place}"), before.as_str());
        statement.push(" AND ");
        statement.visible("cursor", scope);
        statement.push(")");
    }
}

fn line(row: &Row) -> Result<Listed, Fault> {
    Ok(Listed {
        run_id: name(row, 0)?.into(),
        workflow_id: name(row, 1)?.into(),
        status: status(row, 2)?,
        created_at: time(row, 3)?,
        updated_at: time(row, 4)?,
        roster_id: optional_name(row, 5)?.map(Into::into),
        trigger_source: optional_name(row, 6)?,
        tags: names(row, 7)?,
        metrics: metrics(row)?,
        priority: "",
        wait: None,
        rest: rest(row)?,
    })
}

/// Tokens in and out, calls, calls of a known price, their sum. A part is no total.
fn metrics(row: &Row) -> Result<Option<RunMetrics>, Fault> {
    let tokens = RunTokens { input: unsigned(row, 8)?, output: unsigned(row, 9)? };
    let (calls, priced) = (unsigned(row, 10)?, unsigned(row, 11)?);
    let usd = if calls == priced { Some(value(row, 12)?) } else { None };
    let openwop_cost = RunCost { usd, tokens, ..RunCost::default() };
    Ok((calls > 0).then_some(RunMetrics { openwop_cost }))
}

/// What the run waits for, for the rule that says why.
fn rest(row: &Row) -> Result<Rest, Fault> {
    if status(row, 2)?.is_terminal() {
        return Ok(Rest::default());
    }
    let child = optional_name(row, 20)?.zip(optional_name(row, 21)?);
    let rest = Rest {
        is_held: value(row, 13)?,
        wake_at: optional_time(row, 14)?,
        asked: asked(row)?,
        child: child.map(|(run, node)| WaitedChild { run: run.into(), node: node.into() }),
        retrying: optional_name(row, 22)?.map(NodeId::from),
        retry_at: None,
        agents: name(row, 27)?,
        rank: value(row, 28)?,
    };
    Ok(rest.with_newest(newest(row)?))
}

fn asked(row: &Row) -> Result<Option<AskedQuestion>, Fault> {
    let Some(node) = optional_name(row, 15)? else { return Ok(None) };
    let kind: &str = row.try_get(16)?;
    let kind = InterruptKind::from_name(kind)
        .ok_or_else(|| Fault::unreadable("a question", format!("{kind:?} is no kind")))?;
    Ok(Some(AskedQuestion {
        node: node.into(),
        kind,
        since: time(row, 17)?,
        expires_at: optional_time(row, 18)?,
        is_about_budget: value(row, 19)?,
    }))
}

fn newest(row: &Row) -> Result<Option<NewestEvent>, Fault> {
    let Some(kind) = optional_name(row, 23)? else { return Ok(None) };
    let payload: &str = row.try_get(26)?;
    let payload: serde_json::Value = serde_json::from_str(payload)
        .map_err(|error| Fault::unreadable("the payload of an event", error))?;
    Ok(Some(NewestEvent {
        kind,
        node: optional_name(row, 24)?.map(NodeId::from),
        at: time(row, 25)?,
        delay_ms: payload["delayMs"].as_u64(),
        child_run: payload["childRunId"].as_str().map(Into::into),
    }))
}

/// What the models of a member's runs were paid that began since then.
pub(super) async fn spent(
    session: &Session,
    scope: &Scope,
    member: &RosterId,
    since: Timestamp,
) -> Result<Spent, Fault> {
    let sql =
        "SELECT coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
             coalesce(sum(cost_usd), 0)
         FROM runs JOIN events ON events.run = runs.id
         WHERE runs.tenant = $1 AND runs.test = $2 AND ($3::text IS NULL OR runs.workspace = $3)
             AND runs.roster_id = $4 AND runs.created_at >= $5 AND NOT runs.is_replay
             AND events.kind = 'provider.usage'";
    debug_assert!(sql.contains(USAGE));
    let workspace = scope.workspace.as_ref().map(|workspace| stored(workspace.as_str()));
    let (tenant, member) = (stored(scope.tenant.as_str()), stored(member.as_str()));
    let params: Params<'_> =
        &[&&*tenant, &is_test(scope.mode), &workspace, &&*member, &since.as_millis()];
    let Some(row) = session.row(sql, params).await? else { return Ok(Spent::default()) };
    Ok(Spent {
        input_tokens: unsigned(&row, 0)?,
        output_tokens: unsigned(&row, 1)?,
        cost_usd: value(&row, 2)?,
    })
}
