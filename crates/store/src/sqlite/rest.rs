//! What a list tells of runs that have not ended, for the rule that says why they wait.
//!
//! What is stored in its short form has none of it. Each is found under the run's own key: a line of the list costs the same however many runs there are.

use rusqlite::Row;
use serde_json::Value;

use callboard_engine::{AskedQuestion, NewestEvent, Rest, WaitedChild};
use callboard_protocol::{InterruptKind, NodeId, RunStatus, Timestamp};

use super::fault::Fault;
use super::rows::{optional_time, status};

/// Columns of a list: whether the run is held, when it is due, its oldest question, its fold at rest, its newest event.
pub(super) const REST: &str = "runs.holder IS NOT NULL, runs.wake_at,
    CASE WHEN runs.status LIKE 'waiting-%' THEN
        (SELECT json_array(node, kind, requested_at, expires_at, data ->> 'artifactType')
         FROM interrupts AS asked WHERE asked.run = runs.id ORDER BY requested_at, interrupt_id LIMIT 1) END,
    CASE WHEN runs.status IN ('running', 'cancelling') THEN
        (SELECT json_object('nodes', body -> 'nodeStates', 'children', body -> 'childRuns')
         FROM snapshots AS folded WHERE folded.run = runs.id AND folded.version = runs.version) END,
    CASE WHEN runs.status IN ('running', 'cancelling') THEN
        (SELECT json_array(kind, node, at, CASE WHEN substr(payload, 1, 1) = '{' THEN payload ->> 'delayMs' END,
             CASE WHEN substr(payload, 1, 1) = '{' THEN payload ->> 'childRunId' END)
         FROM events AS newest WHERE newest.run = runs.id AND newest.sequence = runs.version - 1) END,
    runs.agents, runs.priority";

type Asked = (NodeId, InterruptKind, i64, Option<i64>, Option<String>);
type Newest = (String, Option<NodeId>, i64, Option<u64>, Option<String>);

/// Reads the columns from `first` on.
pub(super) fn rest(row: &Row<'_>, first: usize) -> Result<Rest, Fault> {
    if status(row, 2).is_ok_and(RunStatus::is_terminal) {
        return Ok(Rest::default());
    }
    let asked: Option<Asked> = read(row, first + 2, |text| serde_json::from_str(text))?;
    let folded: Value =
        read(row, first + 3, |text| serde_json::from_str(text))?.unwrap_or_default();
    let newest: Option<Newest> = read(row, first + 4, |text| serde_json::from_str(text))?;
    let mut children = folded["children"].as_array().into_iter().flatten();
    let is_live = |child: &&Value| {
        let status = child["status"].as_str().and_then(RunStatus::from_name);
        status.is_some_and(|status| !status.is_terminal())
    };
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let live = children.find(is_live);
    let mut nodes = folded["nodes"].as_object().into_iter().flatten();
    let rest = Rest {
        is_held: row.get(first)?,
        wake_at: optional_time(row, first + 1)?,
        asked: asked.map(|(node, kind, since, expires_at, subject)| AskedQuestion {
            node,
            kind,
            since: Timestamp::from_millis(since),
            expires_at: expires_at.map(Timestamp::from_millis),
            is_about_budget: subject.is_some_and(|subject| {
                callboard_core::is_budget_question(&serde_json::json!({ "artifactType": subject }))
            }),
        }),
        child: live.map(|child| WaitedChild {
            run: text(child, "runId").into(),
            node: text(child, "nodeId").into(),
        }),
        retrying: nodes
            .find(|(_, node)| node["status"] == "retrying")
            .map(|(node, _)| node.as_str().into()),
        retry_at: None,
        agents: row.get(first + 5)?,
        rank: row.get(first + 6)?,
    };
    Ok(rest.with_newest(newest.map(|(kind, node, at, delay_ms, child_run)| NewestEvent {
        kind,
        node,
        at: Timestamp::from_millis(at),
        delay_ms,
        child_run: child_run.map(Into::into),
    })))
}

fn read<T>(
    row: &Row<'_>,
    column: usize,
    parse: impl Fn(&str) -> Result<T, serde_json::Error>,
) -> Result<Option<T>, Fault> {
    let text: Option<String> = row.get(column)?;
    let parsed = text.as_deref().map(parse).transpose();
    parsed.map_err(|error| Fault::unreadable("what a run waits for", error))
}
