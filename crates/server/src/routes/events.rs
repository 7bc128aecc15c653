//! A run's events: followed live, polled, or read as JSON.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use callboard_core::stream::{StreamMode, StreamModes};
use callboard_engine::{Page, Recorded};
use callboard_protocol::{Dialect, RunId};
use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use crate::answer::Answer;
use crate::app::Host;
use crate::extract::Named;
use crate::follow::{Follow, Subscription, broken};
use crate::keys::Caller;
use crate::log::{PAGE, Pages};
use crate::problem::{Code, Problem};
use crate::query::Parameters;
use crate::v2::edge::Speaks;
use crate::v2::run_projection::RunProjection;

const LONGEST_BUFFER_MS: u64 = 5000;
const DEFAULT_POLL_SECONDS: u64 = 30;
const LONGEST_POLL_SECONDS: u64 = 60;

pub(super) async fn follow(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    speaks: Speaks,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // The order of these checks is the protocol's, and each holds whatever the client accepts.
    let query = Parameters::open(&uri)?;
    let modes = query.get("streamMode").map(parse_modes).transpose()?;
    let in_range = |text: &str| text.parse().ok().filter(|millis| *millis <= LONGEST_BUFFER_MS);
    let buffer = query.read("bufferMs", "an integer from 0 to 5000", in_range)?;
    let wants_json = wants_json(&headers);
    // In the second major a cursor is looked at only for those who may read the run.
    let projection = projection(&host, &caller, &run, speaks).await?;
    let last_seen = last_event_id(&headers)?;
    if wants_json {
        return as_json(&host, &caller, (run, projection), modes, last_seen).await;
    }
    let buffer = Duration::from_millis(buffer.unwrap_or(0));
    let asked = Subscription { run, modes: modes.unwrap_or_default(), buffer, last_seen };
    let follow = Follow::open(&host, caller, asked, projection).await?;
    let follow = follow.ok_or_else(|| Problem::no_such("run"))?;
    Ok(event_stream(follow.into_body()))
}

/// Who tells the run in the second major; none where the first is spoken.
async fn projection(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    Speaks(dialect): Speaks,
) -> Result<Option<Box<RunProjection>>, Problem> {
    match dialect {
        Dialect::V1 => Ok(None),
        Dialect::V2 => {
            let projection = RunProjection::of(host.app.engine.store(), &caller.scope, run).await?;
            Ok(Some(Box::new(projection.ok_or_else(|| Problem::no_such("run"))?)))
        }
    }
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
    (run, projection): (RunId, Option<Box<RunProjection>>),
    modes: Option<StreamModes>,
    last_seen: Option<u64>,
) -> Result<Response, Problem> {
    let from = last_seen.map_or(0, |seen| seen.saturating_add(1));
    let mut pages = Pages::new(host, caller, &run, from);
    let first = pages.next().await?.ok_or_else(|| Problem::no_such("run"))?;
    polled(Polled { run, modes, pages, has_shown: false, projection }, first).await
}

pub(super) async fn poll(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Named(run): Named<RunId>,
    speaks: Speaks,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Parameters::open(&uri)?;
    let from = match speaks.0 {
        Dialect::V1 => cursor(&query)?,
        Dialect::V2 => after_sequence(&query)?,
    };
    let in_range = |text: &str| {
        text.parse().ok().filter(|seconds| (1..=LONGEST_POLL_SECONDS).contains(seconds))
    };
    let timeout =
        query.read("timeout", "an integer from 1 to 60", in_range)?.unwrap_or(DEFAULT_POLL_SECONDS);
    let in_range = |text: &str| text.parse().ok().filter(|limit| (1..=PAGE).contains(limit));
    let limit = match speaks.0 {
        Dialect::V1 => query.read("limit", "an integer from 1 to 256", in_range)?,
        Dialect::V2 => None,
    };
    let projection = projection(&host, &caller, &run, speaks).await?;
    let waited = wait_for_events(&host, &caller, &run, from, Duration::from_secs(timeout)).await?;
    let (mut first, mut pages) = waited.ok_or_else(|| Problem::no_such("run"))?;
    if let Some(limit) = limit {
        first.events.truncate(limit);
        pages.stop();
    }
    polled(Polled { run, modes: None, pages, has_shown: false, projection }, first).await
}

/// No cursor and a cursor of zero both mean the start; from one on it is exclusive.
fn cursor(query: &Parameters) -> Result<u64, Problem> {
    let integer = |text: &str| text.parse::<i64>().ok();
    let seen = query.read("lastSequence", "an integer", integer)?;
    let seen = seen.or(query.read("since", "an integer", integer)?).unwrap_or(0);
    let seen = u64::try_from(seen).ok().filter(|seen| *seen > 0);
    Ok(seen.map_or(0, |seen| seen.saturating_add(1)))
}

/// In the second major zero is a cursor like any other.
fn after_sequence(query: &Parameters) -> Result<u64, Problem> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    let seen = query.read("afterSequence", "an integer of at least 0", number)?;
    Ok(seen.map_or(0, |seen| seen.saturating_add(1)))
}

/// Reads until there is something to say, the run has ended, or waiting has. Answers the first page, and the others.
async fn wait_for_events(
    host: &Host,
    caller: &Caller,
    run: &RunId,
    from: u64,
    timeout: Duration,
) -> Result<Option<(Page, Pages)>, Problem> {
    let deadline = tokio::time::Instant::now() + timeout;
    let mut is_patient = true;
    loop {
        let mut pages = Pages::new(host, caller, run, from);
        let Some(page) = pages.next().await? else { return Ok(None) };
        if !is_patient || !page.events.is_empty() || page.status.is_terminal() {
            return Ok(Some((page, pages)));
        }
        let engine = &host.app.engine;
        // Losing any of these waits is fine: whichever ends first, the log is read again.
        is_patient = tokio::select! {
            () = engine.store().changed(run, page.version) => true,
            () = tokio::time::sleep_until(deadline) => false,
            () = host.app.shutdown.cancelled() => false,
            () = caller.over(engine.clock().as_ref()) => false,
        };
        // Nobody is shown what came after the key's end.
        caller.check(host.now())?;
    }
}

/// An answer with the rest of a log: in the first major as the union of the two shapes that it documents.
struct Polled {
    run: RunId,
    /// None shows every event.
    modes: Option<StreamModes>,
    pages: Pages,
    has_shown: bool,
    /// Speaks the second major.
    projection: Option<Box<RunProjection>>,
}

/// The protocol wants the whole rest at once. Beyond one page it is sent as it is read, so that no log is held whole.
async fn polled(mut polled: Polled, mut first: Page) -> Result<Response, Problem> {
    let run = match &polled.projection {
        Some(projection) => Value::from(projection.run_id()),
        None => Value::from(polled.run.as_str()),
    };
    let (events, end) = (polled.show(&mut first).await?, polled.end(&first));
    let begun = format!(r#"{{"runId":{run},"events":[{events}"#);
    if polled.pages.are_over() {
        return Ok(Answer { status: StatusCode::OK, body: begun + &end }.into_response());
    }
    let rest = stream::try_unfold(Some((polled, end)), |state| async {
        let Some((mut polled, end)) = state else { return Ok(None) };
        let page = polled.pages.next().await.map_err(|error| broken(error.into()))?;
        Ok::<_, io::Error>(Some(match page {
            Some(mut page) => {
                let shown = polled.show(&mut page).await.map_err(broken)?;
                let end = polled.end(&page);
                (shown, Some((polled, end)))
            }
            None => (end, None),
        }))
    });
    let body = Body::from_stream(stream::iter([Ok(begun)]).chain(rest));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

impl Polled {
    /// The events of a page, to stand behind those of the pages before it.
    async fn show(&mut self, page: &mut Page) -> Result<String, Problem> {
        if let Some(modes) = &self.modes {
            page.events.retain(|event| modes.admits(&event.kind));
        }
        if page.events.is_empty() {
            return Ok(String::new());
        }
        let list = match &mut self.projection {
            None => Recorded::all_to_json(&page.events),
            Some(projection) => {
                let mut told = Vec::with_capacity(page.events.len());
                for event in &page.events {
                    told.push(projection.event(event).await?);
                }
                Value::Array(told).to_string()
            }
        };
        let inside = list.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
        let comma = if std::mem::replace(&mut self.has_shown, true) { "," } else { "" };
        Ok(format!("{comma}{}", inside.unwrap_or_default()))
    }

    /// What stands behind the events, if this was their last page.
    fn end(&self, page: &Page) -> String {
        let status = page.status.as_str();
        let has_ended = page.status.is_terminal();
        if self.projection.is_some() {
            let last = i64::try_from(page.version).unwrap_or(i64::MAX) - 1;
            return format!(
                r#"],"lastSequence":{last},"status":"{status}","isTerminal":{has_ended}}}"#
            );
        }
        // Zero while the log is empty, which as a cursor means the start.
        let last = page.version.saturating_sub(1);
        format!(
            r#"],"lastEventSeq":{last},"runStatus":"{status}","isTerminal":{has_ended},"isComplete":{has_ended}}}"#
        )
    }
}

fn parse_modes(text: &str) -> Result<StreamModes, Problem> {
    StreamModes::parse(text).map_err(|error| {
        Problem::new(Code::UnsupportedStreamMode, error.to_string())
            .with("supported", StreamMode::NAMES.to_vec())
    })
}

/// JSON only for callers that ask for it and not for a stream; all others get the stream.
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
