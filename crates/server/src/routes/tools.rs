//! The catalogue of tools, as far as the caller may use them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_agents::ToolDescriptor;
use callboard_protocol::ToolEntry;
use serde_json::json;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::keys::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

/// A bare list: the protocol's text wraps it, its suite and its hosts do not.
pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let source = query.get("source");
    let tools = host.app.tools.toolbox.list(&caller.scope).await;
    let is_asked_for =
        |entry: &ToolEntry| source.is_none_or(|source| json!(entry.source) == source);
    let entries: Vec<ToolEntry> = tools
        .iter()
        .filter(|tool| may_use(&caller, tool))
        .map(ToolDescriptor::entry)
        .filter(is_asked_for)
        .collect();
    Ok(Answer::of(StatusCode::OK, &entries))
}

/// A tool that the caller may not use looks like one that is not there.
pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<String>,
) -> Result<Answer, Problem> {
    let tool = host.app.tools.toolbox.find(&caller.scope, &id).await;
    let tool = tool.filter(|tool| may_use(&caller, tool.descriptor()));
    let tool = tool.ok_or_else(|| Problem::no_such("tool"))?;
    Ok(Answer::of(StatusCode::OK, &tool.descriptor().entry()))
}

fn may_use(caller: &Caller, tool: &ToolDescriptor) -> bool {
    tool.required_scopes.iter().all(|scope| caller.may(scope))
}
