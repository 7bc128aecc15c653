//! A run's events: followed live, polled, or read as JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_core::stream::{StreamMode, StreamModes};
use callboard_engine::{Page, Recorded};
use callboard_protocol::RunId;
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::follow::{Follow, Subscription, read_rest};
use crate::keys::Caller;
use crate::problem::{Code, Problem};
use crate::query::Parameters;

const LONGEST_BUFFER_MS: u64 = 5000;
const DEFAULT_POLL_SECONDS: u64 = 30;
const LONGEST_POLL_SECONDS: u64 = 60;

pub(super) async fn follow(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // The order of these checks is the protocol's, and each holds whatever the client accepts.
    let query = Parameters::open(&uri)?;
    let modes = query.get("streamMode").map(parse_modes).transpose()?;
    let in_range = |text: &str| text.parse().ok().filter(|millis| *millis <= LONGEST_BUFFER_MS);
    let buffer = query.read("bufferMs", "an integer from 0 to 5000", in_range)?;
    let wants_json = wants_json(&headers);
    let last_seen = last_event_id(&headers)?;
    if wants_json {
        return as_json(&host, &caller, &run, modes, last_seen).await;
    }
    let buffer = Duration::from_millis(buffer.unwrap_or(0));
    let asked = Subscription { run, modes: modes.unwrap_or_default(), buffer, last_seen };
    let follow =
        Follow::open(&host, caller, asked).await?.ok_or_else(|| Problem::no_such("run"))?;
    Ok(event_stream(follow.into_body()))
}

pub(super) fn event_stream(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect answers before passing them on would make a stream useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn as_json(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    modes: Option<StreamModes>,
    last_seen: Option<u64>,
) -> Result<Response, Problem> {
    let from = last_seen.map_or(0, |seen| seen.saturating_add(1));
    let page = read_rest(host, caller, run, from).await?;
    let mut page = page.ok_or_else(|| Problem::no_such("run"))?;
    if let Some(modes) = modes {
        page.events.retain(|event| modes.admits(&event.kind));
    }
    Ok(polled(run, &page).into_response())
}

pub(super) async fn poll(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    uri: Uri,
) -> Result<Answer, Problem> {
    let query = Parameters::open(&uri)?;
    let integer = |text: &str| text.parse::<i64>().ok();
    let seen = query.read("lastSequence", "an integer", integer)?;
    let seen = seen.or(query.read("since", "an integer", integer)?).unwrap_or(0);
    let in_range = |text: &str| {
        text.parse().ok().filter(|seconds| (1..=LONGEST_POLL_SECONDS).contains(seconds))
    };
    let timeout =
        query.read("timeout", "an integer from 1 to 60", in_range)?.unwrap_or(DEFAULT_POLL_SECONDS);
    // No cursor and a cursor of zero both mean the start; from one on it is exclusive.
    let from =
        u64::try_from(seen).ok().filter(|seen| *seen > 0).map_or(0, |seen| seen.saturating_add(1));
    let page = wait_for_events(&host, &caller, &run, from, Duration::from_secs(timeout)).await?;
    Ok(polled(&run, &page.ok_or_else(|| Problem::no_such("run"))?))
}

/// Reads until there is something to say, the run has ended, or waiting has.
async fn wait_for_events(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    from: u64,
    timeout: Duration,
) -> Result<Option<Page>, Problem> {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let Some(page) = read_rest(host, caller, run, from).await? else { return Ok(None) };
        if !page.events.is_empty() || page.status.is_terminal() {
            return Ok(Some(page));
        }
        // Losing any of these waits is fine: whichever ends first, the log is read again.
        tokio::select! {
            () = host.app.engine.store().changed(run, page.version) => continue,
            () = tokio::time::sleep_until(deadline) => {}
            () = host.app.shutdown.cancelled() => {}
            () = caller.revoked.cancelled() => {}
        }
        return Ok(read_rest(host, caller, run, from).await?);
    }
}

/// The union of the two shapes that the protocol documents.
fn polled(run: &RunId, page: &Page) -> Answer {
    let run = Value::from(run.as_str());
    let events = Recorded::all_to_json(&page.events);
    // Zero while the log is empty, which as a cursor means the start.
    let last = page.version.saturating_sub(1);
    let status = page.status.as_str();
    let has_ended = page.status.is_terminal();
    let body = format!(
        r#"{{"runId":{run},"events":{events},"lastEventSeq":{last},"runStatus":"{status}","isTerminal":{has_ended},"isComplete":{has_ended}}}"#
    );
    Answer { status: StatusCode::OK, body }
}

fn parse_modes(text: &str) -> Result<StreamModes, Problem> {
    StreamModes::parse(text).map_err(|error| {
        Problem::new(Code::UnsupportedStreamMode, error.to_string())
            .with("supported", StreamMode::NAMES.to_vec())
    })
}

/// JSON only for those who ask for it and not for a stream; everybody else gets the stream.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepts = |wanted: &str| {
        let texts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut ranges = texts
            .flat_map(|text| text.split(','))
            .map(|range| range.split(';').next().unwrap_or_default());
        ranges.any(|range| range.trim().eq_ignore_ascii_case(wanted))
    };
    accepts("application/json") && !accepts("text/event-stream")
}

/// An empty header is what some clients send before they have seen anything.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let id = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    id.map(Some).ok_or_else(|| Problem::invalid_at("Last-Event-ID", "must be the id of an event"))
}
