//! `GET /v1/runs/{runId}/artifacts/{artifactId}`: what a node left behind.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use callboard_engine::Recorded;
use callboard_protocol::{ArtifactCreated, NodeId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::follow::read_rest;
use crate::keys::Caller;
use crate::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    run_id: String,
    artifact_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    artifact_id: String,
    artifact_type: String,
    node_id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The outputs of the node, as readers may see them.
    data: Value,
}

/// Whatever is missing, the run or the artifact, the answer is the same.
pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Path(place): Path<Place>,
) -> Result<Answer, Problem> {
    let unknown = || Problem::no_such("artifact");
    let run = RunId::from(place.run_id);
    let page = read_rest(&host, &caller, &run, 0).await?.ok_or_else(unknown)?;
    let artifact = find(&page.events, &place.artifact_id).ok_or_else(unknown)?;
    Answer::json(StatusCode::OK, &artifact)
}

/// The log tells of an artifact after the node that made it has completed.
fn find(events: &[Recorded], id: &str) -> Option<Artifact> {
    let told = events.iter().enumerate().filter(|(_, event)| event.kind == "artifact.created");
    let (place, created) = told
        .filter_map(|(place, event)| {
            Some((place, serde_json::from_str::<ArtifactCreated>(&event.payload).ok()?))
        })
        .find(|(_, created)| created.artifact_id == id)?;
    let made = events[..place].iter().rev().find(|event| {
        event.kind == "node.completed" && event.node.as_ref() == Some(&created.node_id)
    })?;
    let mut payload: Value = serde_json::from_str(&made.payload).ok()?;
    Some(Artifact {
        artifact_id: created.artifact_id,
        artifact_type: created.artifact_type,
        node_id: created.node_id,
        version: created.version,
        data: payload.get_mut("outputs").map(Value::take).unwrap_or_default(),
    })
}
