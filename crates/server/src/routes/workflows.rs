//! Workflow definitions: read by anybody who runs them, registered for a workspace or for the whole tenant.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_engine::{CatalogEntry, DeclaredError, Origin, Put, RegisterError, Undecided};
use callboard_protocol::WorkflowId;
use serde::Serialize;
use serde_json::Value;

use super::schedules::unfit;
use crate::answer::Answer;
use crate::app::Host;
use crate::extract::{Named, Sent};
use crate::keys::{Caller, of_tenant};
use crate::problem::{Code, Problem};
use crate::query::Parameters;

#[derive(Serialize)]
struct WorkflowList<'a> {
    workflows: Vec<WorkflowLine<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkflowLine<'a> {
    workflow_id: &'a WorkflowId,
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    origin: &'static str,
}

/// Answers the definition verbatim.
pub(super) async fn read(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WorkflowId>,
) -> Result<Answer, Problem> {
    let entry = host.app.engine.catalog().find(&caller.scope, &id).await?;
    let entry = entry.ok_or_else(|| Problem::no_such("workflow"))?;
    Ok(Answer { status: StatusCode::OK, body: entry.source.to_string() })
}

pub(super) async fn list(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let entries = host.app.engine.catalog().list(&caller.scope).await?;
    Answer::json(StatusCode::OK, &WorkflowList { workflows: entries.iter().map(line).collect() })
}

fn line(entry: &CatalogEntry) -> WorkflowLine<'_> {
    let definition = entry.plan.definition();
    WorkflowLine {
        workflow_id: &definition.id,
        name: &definition.name,
        version: &definition.version,
        description: definition.description.as_deref(),
        origin: match entry.origin {
            Origin::Loaded => "loaded",
            Origin::Registered => "registered",
        },
    }
}

pub(super) async fn register(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    Sent(source): Sent,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    store(&host, &caller, &source).await
}

/// The path and the definition must name the same workflow.
pub(super) async fn replace(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WorkflowId>,
    uri: Uri,
    Sent(source): Sent,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let own = serde_json::from_slice::<Value>(&source).unwrap_or_default();
    if own.get("id").and_then(|own| own.as_str()).is_some_and(|own| own != id.as_str()) {
        return Err(Problem::invalid_at("id", "is not the id in the path"));
    }
    store(&host, &caller, &source).await
}

pub async fn store(host: &Host, caller: &Caller, source: &[u8]) -> Result<Answer, Problem> {
    if let Some(seams) = &host.app.seams {
        seams.check_workflow(source)?;
    }
    refuse_channels(host, source)?;
    let registered = host
        .app
        .engine
        .catalog()
        .register(&caller.owner(), caller.scope.mode, source, host.now())
        .await;
    let status = match registered.map_err(problem)?.1 {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    host.app.scheduler.wake();
    Ok(Answer { status, body: String::from_utf8_lossy(source).into_owned() })
}

/// A channel leads nowhere on a host that does not say that it resolves them.
fn refuse_channels(host: &Host, source: &[u8]) -> Result<(), Problem> {
    let agents = host.app.config.agents.as_ref();
    if agents.is_some_and(|agents| agents.deployment.is_some()) {
        return Ok(());
    }
    // A definition that does not parse is refused by name further on.
    let definition: Value = serde_json::from_slice(source).unwrap_or_default();
    let mut nodes = definition.get("nodes").and_then(Value::as_array).into_iter().flatten();
    match nodes.position(|node| node["agent"].get("channel").is_some()) {
        Some(place) => Err(Problem::invalid_at(
            &format!("nodes[{place}].agent.channel"),
            "this host does not resolve channels of agents",
        )),
        None => Ok(()),
    }
}

fn problem(error: RegisterError) -> Problem {
    match error {
        RegisterError::Invalid(error) => {
            let problem = Problem::invalid(error.to_string());
            if error.path.is_empty() { problem } else { problem.with("path", error.path) }
        }
        RegisterError::Inadmissible(error) => error.into(),
        RegisterError::Declared(DeclaredError { path, why }) => unfit(&why, &path, &path),
        RegisterError::Reserved(_) => reserved(),
        RegisterError::Undecided(why @ Undecided::NoThreads) => why.into(),
        RegisterError::Undecided(_) => Problem::invalid(
            "definition: checking it takes too long; make its schemas and expressions simpler",
        ),
        RegisterError::Store(error) => error.into(),
    }
}

pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WorkflowId>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let catalog = host.app.engine.catalog();
    if catalog.remove(&caller.scope, &id).await? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    match catalog.find(&caller.scope, &id).await?.map(|entry| entry.origin) {
        Some(Origin::Loaded) => Err(reserved()),
        Some(Origin::Registered) => Err(of_tenant("workflow")),
        None => Err(Problem::no_such("workflow")),
    }
}

fn reserved() -> Problem {
    Problem::new(
        Code::WorkflowReserved,
        "the host loaded this workflow; change the file and start again",
    )
}
