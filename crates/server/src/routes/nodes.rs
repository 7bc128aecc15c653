//! The node types that this host runs, from the table that people's definitions are checked with.

use axum::http::{StatusCode, Uri};
use callboard_authoring::{NodeType, node_types};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::problem::Problem;
use crate::query::Parameters;

pub(super) async fn list(uri: Uri) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let nodes: Vec<Value> = node_types().iter().map(NodeType::to_json).collect();
    Answer::json(StatusCode::OK, &json!({ "nodes": nodes }))
}
