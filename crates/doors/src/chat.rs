//! `/openai/v1`: members and agents as models of the OpenAI API, for chat clients. Every answer is a durable run.

mod completions;
mod problem;
mod request;
mod responses;
mod talk;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::caller::{Caller, bearer};
use crate::offer::{self, Kind};
use problem::Problem;
use request::Ask;
use talk::{Piece, Talk};

/// What one request may bring, as at the API itself.
const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// Answers that are waited for at one time, over all clients.
const MOST_TALKS: usize = 256;

#[derive(Debug)]
struct Door {
    api: Arc<dyn Api>,
    places: Arc<Semaphore>,
    stop: CancellationToken,
}

pub(crate) fn router(api: Arc<dyn Api>, stop: CancellationToken) -> Router {
    let door = Door { api, places: Arc::new(Semaphore::new(MOST_TALKS)), stop };
    Router::new()
        .route("/openai/v1/models", get(models))
        .route("/openai/v1/models/{model}", get(model))
        .route("/openai/v1/chat/completions", post(complete))
        .route("/openai/v1/responses", post(respond))
        .route("/openai/v1/responses/{id}", get(response))
        .with_state(Arc::new(door))
}

impl Door {
    /// Whoever shows a key that the host knows.
    async fn admit(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let key = bearer(headers)?;
        let caller = Caller::new(Arc::clone(&self.api), key, crate::base(headers));
        caller.key_id().await?;
        Ok(caller)
    }

    /// The same with what it sends, which is read only then.
    async fn read(&self, request: Request) -> Result<(Caller, Option<String>, Value), Problem> {
        let (parts, body) = request.into_parts();
        let caller = self.admit(&parts.headers).await?;
        let key = idempotency_key(&parts.headers)?;
        let bytes = axum::body::to_bytes(body, LARGEST_BODY).await;
        let bytes = bytes.map_err(|_| Problem::too_large())?;
        let body: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Problem::invalid(None, format!("the body is no JSON: {error}")))?;
        Ok((caller, key, body))
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| Problem::busy())
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text = key.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
    let wrong = || Problem::invalid(Some("Idempotency-Key"), "must have 1 to 255 characters");
    text.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

async fn models(State(door): State<Arc<Door>>, headers: HeaderMap) -> Result<Response, Problem> {
    let caller = door.admit(&headers).await?;
    let data: Vec<Value> = offer::people(&caller).await?.iter().map(described).collect();
    Ok(axum::Json(json!({ "object": "list", "data": data })).into_response())
}

async fn model(
    State(door): State<Arc<Door>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let caller = door.admit(&headers).await?;
    let found = request::find(&caller, &name).await?;
    Ok(axum::Json(described(&found)).into_response())
}

/// The protocol wants a time of creation, which members and agents do not have.
fn described(offer: &offer::Offer) -> Value {
    let kind = match offer.kind {
        Kind::Member => "member",
        Kind::Agent | Kind::Workflow => "agent",
    };
    json!({ "id": offer.id, "object": "model", "created": 0, "owned_by": format!("callboard {kind}") })
}

async fn complete(State(door): State<Arc<Door>>, request: Request) -> Result<Response, Problem> {
    let (caller, key, body) = door.read(request).await?;
    let place = door.place()?;
    let ask = request::of_completion(&body)?;
    let talk = begin(&door, caller, key, &ask).await?;
    let has_usage = body["stream_options"]["include_usage"] == json!(true);
    if ask.is_streamed {
        return Ok(streamed(completions::Stream::new(talk, has_usage), place));
    }
    let ended = talk.finish().await?;
    Ok(shown(&ended.run, &completions::whole(&ended)))
}

async fn respond(State(door): State<Arc<Door>>, request: Request) -> Result<Response, Problem> {
    let (caller, key, body) = door.read(request).await?;
    let place = door.place()?;
    let ask = request::of_response(&caller, &body).await?;
    let talk = begin(&door, caller, key, &ask).await?;
    if ask.is_streamed {
        return Ok(streamed(responses::Stream::new(talk), place));
    }
    let ended = talk.finish().await?;
    Ok(shown(&ended.run, &responses::whole(&ended)))
}

/// What a response came to, however long ago it was asked for.
async fn response(
    State(door): State<Arc<Door>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let caller = door.admit(&headers).await?;
    let run = responses::run_of(&id)?;
    let snapshot = request::run(&caller, run).await?;
    let model = snapshot["agent"]["agentId"].as_str().unwrap_or_default().to_owned();
    let ended = Talk::again(caller, run.to_owned(), model, door.stop.clone()).finish().await?;
    Ok(shown(&ended.run, &responses::whole(&ended)))
}

async fn begin(
    door: &Door,
    caller: Caller,
    key: Option<String>,
    ask: &Ask,
) -> Result<Talk, Problem> {
    let offer = request::find(&caller, &ask.model).await?;
    let inputs = ask.inputs(&offer.schema(&caller).await?);
    let run = caller.start(offer.order(&inputs), key).await?;
    Ok(Talk::new(caller, run, ask.model.clone(), door.stop.clone()))
}

fn shown(run: &str, body: &Value) -> Response {
    let mut response = (StatusCode::OK, axum::Json(body)).into_response();
    name_run(&mut response, run);
    response
}

fn name_run(response: &mut Response, run: &str) {
    if let Ok(run) = HeaderValue::from_str(run) {
        response.headers_mut().insert("x-callboard-run", run);
    }
}

/// How one of the two protocols tells a talk, frame by frame.
trait Frames: Send + 'static {
    fn talk(&mut self) -> &mut Talk;
    /// What is sent before anything has happened.
    fn open(&mut self) -> String;
    fn text(&mut self, text: &str) -> String;
    fn close(&mut self) -> String;
}

fn streamed(mut frames: impl Frames, place: OwnedSemaphorePermit) -> Response {
    let run = frames.talk().run().to_owned();
    let opening = frames.open();
    let state = Some((frames, place));
    let rest = stream::unfold(state, |state| async {
        let (mut frames, place) = state?;
        let (sent, is_over) = match frames.talk().next().await {
            Ok(Piece::Text(text)) => (frames.text(&text), false),
            // A comment, so that nobody in between takes the connection for dead.
            Ok(Piece::Nothing) => (": waiting\n\n".to_owned(), false),
            Ok(Piece::Over) => (frames.close(), true),
            Err(problem) => (format!("data: {}\n\n", problem.body()), true),
        };
        let state = (!is_over).then_some((frames, place));
        Some((sent, state))
    });
    let opened = stream::once(std::future::ready(opening));
    let all = futures_util::StreamExt::chain(opened, rest);
    let all = futures_util::StreamExt::map(all, |frame| Ok::<_, Infallible>(Bytes::from(frame)));
    let mut response = Body::from_stream(all).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    name_run(&mut response, &run);
    response
}
