//! `GET /v1/runs/{runId}/artifacts/{artifactId}`: what a node left behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use callboard_protocol::{ArtifactCreated, NodeId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::keys::Caller;
use crate::log::Pages;
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
    let pages = Pages::new(&host, &caller, &run, 0);
    let (created, made) = find(pages, &place.artifact_id).await?.ok_or_else(unknown)?;
    let page = host.app.engine.store().read(&caller.scope, &run, made, 1).await?;
    let made = page.and_then(|page| page.events.into_iter().next()).ok_or_else(unknown)?;
    let mut payload: Value = serde_json::from_str(&made.payload).map_err(|_| unknown())?;
    let artifact = Artifact {
        artifact_id: created.artifact_id,
        artifact_type: created.artifact_type,
        node_id: created.node_id,
        version: created.version,
        data: payload.get_mut("outputs").map(Value::take).unwrap_or_default(),
    };
    Answer::json(StatusCode::OK, &artifact)
}

/// The artifact's event, and the event of the node that had made it by then.
async fn find(mut pages: Pages, id: &str) -> Result<Option<(ArtifactCreated, u64)>, Problem> {
    let mut completed: BTreeMap<NodeId, u64> = BTreeMap::new();
    while let Some(page) = pages.next().await? {
        for event in page.events {
            match (event.kind.as_str(), event.node) {
                ("node.completed", Some(node)) => {
                    completed.insert(node, event.sequence);
                }
                ("artifact.created", _) => {
                    let created = serde_json::from_str::<ArtifactCreated>(&event.payload).ok();
                    if let Some(created) = created.filter(|created| created.artifact_id == id) {
                        let made = completed.get(&created.node_id).copied();
                        return Ok(made.map(|made| (created, made)));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(None)
}
