//! Workflow definitions: read by every key that may run them, registered for a workspace or for the whole tenant.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use callboard_authoring::{Format, Problem as Mistake, Reading, Source};
use callboard_engine::{CatalogEntry, DeclaredError, Origin, Put, RegisterError, Undecided};
use callboard_protocol::{WorkflowDefinition, WorkflowId};
use serde::Serialize;
use serde_json::{Value, json};

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
    headers: HeaderMap,
    Sent(source): Sent,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let canonical = canonical(&headers, source, None).await?;
    keep(&host, &caller, &canonical).await
}

/// The path and the definition must name the same workflow; one without an id gets the one in the path.
pub(super) async fn replace(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(id): Named<WorkflowId>,
    uri: Uri,
    headers: HeaderMap,
    Sent(source): Sent,
) -> Result<Answer, Problem> {
    Parameters::closed(&uri, &[])?;
    let canonical = canonical(&headers, source, Some(id.clone())).await?;
    let own = serde_json::from_str::<Value>(&canonical.text).unwrap_or_default();
    if own.get("id").and_then(|own| own.as_str()).is_some_and(|own| own != id.as_str()) {
        return Err(Problem::invalid_at("id", "is not the id in the path"));
    }
    keep(&host, &caller, &canonical).await
}

/// What was sent, as the protocol has it.
struct Canonical {
    text: String,
    /// Where its parts were written, if it was expanded.
    reading: Option<Reading>,
}

/// A definition that is canonical already stays as it is, to the letter.
async fn canonical(
    headers: &HeaderMap,
    source: Bytes,
    id: Option<WorkflowId>,
) -> Result<Canonical, Problem> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let format = Format::of_media_type(media_type);
    let text = String::from_utf8(source.into())
        .map_err(|error| Problem::invalid(format!("definition: {error}")))?;
    if format == Format::Json && WorkflowDefinition::parse(text.as_bytes()).is_ok() {
        return Ok(Canonical { text, reading: None });
    }
    // A large one takes a while; others are answered meanwhile.
    let read = tokio::task::spawn_blocking(move || {
        let id = id.as_ref().map(WorkflowId::as_str);
        callboard_authoring::expand(Source { text: &text, format, id })
    });
    let mut reading = read.await.map_err(|error| Problem::internal(&error))?;
    match reading.canonical.take() {
        Some(text) => Ok(Canonical { text, reading: Some(reading) }),
        None => {
            Err(mistakes(&reading.problems.iter().collect::<Vec<_>>(), reading.problems.more()))
        }
    }
}

/// All that is wrong, as far as the list goes.
fn mistakes(found: &[&Mistake], more: usize) -> Problem {
    let mut lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let problem = Problem::invalid(lines.join("\n")).with("problems", json!(found));
    match found.iter().map(|mistake| mistake.path.as_str()).find(|path| !path.is_empty()) {
        Some(path) => problem.with("path", path),
        None => problem,
    }
}

async fn keep(host: &Host, caller: &Caller, canonical: &Canonical) -> Result<Answer, Problem> {
    let kept = store(host, caller, canonical.text.as_bytes()).await;
    let (Err(problem), Some(reading)) = (&kept, &canonical.reading) else { return kept };
    // It was judged in another form than it was written in.
    let Some(path) = problem.detail("path") else { return kept };
    let message = &problem.message;
    let message = message.strip_prefix(&format!("{path}: ")).unwrap_or(message);
    let located = reading.located(path, message);
    Err(mistakes(&[&located], 0))
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
        RegisterError::Inadmissible(error) => with_nearest(error.into()),
        RegisterError::Declared(DeclaredError { path, why }) => unfit(&why, &path, &path),
        RegisterError::Reserved(_) => reserved(),
        RegisterError::Undecided(why @ Undecided::NoThreads) => why.into(),
        RegisterError::Undecided(_) => Problem::invalid(
            "definition: checking it takes too long; make its schemas and expressions simpler",
        ),
        RegisterError::Store(error) => error.into(),
    }
}

/// A type that nobody runs here is often one that is spelt wrong.
fn with_nearest(problem: Problem) -> Problem {
    let known = callboard_authoring::node_types().iter().map(|known| known.type_id);
    let near =
        problem.detail("offendingTypeId").and_then(|it| callboard_authoring::nearest(it, known));
    match near {
        Some(near) => problem.with("didYouMean", near),
        None => problem,
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
