//! The node types that this host runs, from the table that people's definitions are checked with.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_authoring::{NodeType, node_types};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::app::Host;
use crate::problem::Problem;
use crate::query::Parameters;

pub(super) async fn list(State(host): State<Arc<Host>>, uri: Uri) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let mut nodes: Vec<Value> = node_types().iter().map(NodeType::to_json).collect();
    nodes.extend(host.app.engine.described_types());
    Answer::json(StatusCode::OK, &json!({ "nodes": nodes }))
}
