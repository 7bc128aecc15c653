//! `GET …/roster/{rosterId}/activity`: what a member did, what waits for an answer, what it cost.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_engine::{Filter, InboxFilter, InboxItem, Listed, Spent};
use callboard_protocol::{
    AgentRosterEntry, InterruptKind, NodeId, RosterId, RunId, Timestamp, WorkflowId,
};
use serde::Serialize;

use super::list::{DEFAULT_LIMIT, cursor_of, in_range, run_of};
use super::roster;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

const KNOWN: [&str; 3] = ["since", "limit", "cursor"];
/// A night and the day around it.
const DEFAULT_SPAN_MS: i64 = 86_400_000;
/// Questions shown here; the inbox shows all.
const MOST_WAITING: usize = 50;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Activity {
    member: AgentRosterEntry,
    since: Timestamp,
    runs: Vec<Listed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Longest waiting first, whenever their runs began.
    waiting: Vec<Waiting>,
    spent: Spent,
}

/// That something is asked; what is asked stands in the inbox.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    run_id: RunId,
    workflow_id: WorkflowId,
    node_id: NodeId,
    kind: InterruptKind,
    requested_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl From<InboxItem> for Waiting {
    fn from(item: InboxItem) -> Self {
        Self {
            run_id: item.run,
            workflow_id: item.workflow,
            node_id: item.interrupt.node,
            kind: item.interrupt.kind,
            requested_at: item.interrupt.requested_at,
            expires_at: item.interrupt.expires_at,
        }
    }
}

pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<RosterId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::closed(&uri, &KNOWN)?;
    let limit = query.read("limit", "an integer from 1 to 200", in_range)?.unwrap_or(DEFAULT_LIMIT);
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let a_day_ago = Timestamp::from_millis(host.now().as_millis() - DEFAULT_SPAN_MS);
    let since = query.read("since", "an RFC 3339 time", time)?.unwrap_or(a_day_ago);
    let member = roster::find(&host, &caller, &id).await?.entry;
    let filter = Filter {
        member: Some(id.clone()),
        since: Some(since),
        before: query.read("cursor", "a cursor that a list gave", run_of)?,
        // One more than shown tells whether there is a next page.
        limit: limit + 1,
        ..Filter::default()
    };
    let engine = &host.app.engine;
    let mut runs = engine.store().list(&caller.scope, &filter).await?;
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    let next_cursor = runs.last().filter(|_| has_more).map(|run| cursor_of(&run.run_id));
    let asked =
        InboxFilter { member: Some(id.clone()), limit: MOST_WAITING, ..InboxFilter::default() };
    let waiting = engine.store().inbox(&caller.scope, &asked).await?;
    let waiting = waiting.into_iter().map(Waiting::from).collect();
    let spent = engine.roster().spent(&caller.scope, &id, since).await?;
    let activity = Activity { member, since, runs, next_cursor, waiting, spent };
    Answer::json(StatusCode::OK, &activity)
}
