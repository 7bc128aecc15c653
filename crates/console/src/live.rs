//! What is new, while a page is open: events of the API become rows and pieces of the page, over one stream.
//!
//! Rows carry the event's sequence as their id, so that a browser that comes back goes on behind the last one it saw.
//! Pieces that are made from a state are made anew when something has happened, but not more often than people can read.
//! A stream ends soon after its session.

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use callboard_protocol::Timestamp;
use futures_util::{Stream, StreamExt as _, stream};
use maud::Markup;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{Frames, segment};
use crate::pages::run::{
    Names, Narrow, Tab, ancestry, definition, has_ended, head, log_row, picture, story_row,
    with_wait,
};
use crate::pages::{inbox, overview, runs};
use crate::trouble::Trouble;
use crate::value::{text, time, whole};
use crate::visit::Visit;

/// Pieces follow the first event after a while of quiet this soon, and are made anew this often at most: each time costs
/// calls of the API, and nobody reads faster.
const SOON: Duration = Duration::from_millis(100);
const EVERY: Duration = Duration::from_millis(2000);
/// How often a stream asks at most whether its session goes on.
const ASKED_EVERY: Duration = Duration::from_millis(1000);
/// Lists cost a call of the API each time.
const LIST_EVERY: Duration = Duration::from_millis(1000);
/// A frame of the API larger than this is not one.
const LARGEST_FRAME: usize = 16 * 1024 * 1024;
/// Rows are sent together up to this size, so that a slow browser holds little of the memory.
const LARGEST_PIECE: usize = 64 * 1024;

/// Which list a page shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum List {
    Runs,
    Inbox,
    Overview,
}

impl List {
    async fn render(self, visit: &Visit) -> Result<Markup, Trouble> {
        match self {
            Self::Runs => runs::list(visit).await,
            Self::Inbox => inbox::list(visit).await,
            Self::Overview => overview::content(visit).await,
        }
    }
}

pub(crate) async fn of_runs(visit: Visit) -> Result<Response, Trouble> {
    of_list(visit, List::Runs).await
}

pub(crate) async fn of_inbox(visit: Visit) -> Result<Response, Trouble> {
    of_list(visit, List::Inbox).await
}

pub(crate) async fn of_overview(visit: Visit) -> Result<Response, Trouble> {
    of_list(visit, List::Overview).await
}

/// A list that is made anew whenever something has happened.
async fn of_list(visit: Visit, list: List) -> Result<Response, Trouble> {
    let path = format!("{}/events", crate::EXTENSION);
    let frames = visit.console.api().follow(&visit.who.key_id, &path, None).await?;
    // Made anew at once: something may have happened between the page and this.
    let state = ListFeed { visit, list, input: Input::new(frames), due: Some(Instant::now()) };
    let text = stream::unfold(state, |mut feed| async move {
        let text = feed.step().await?;
        Some((Ok::<_, std::convert::Infallible>(text), feed))
    });
    Ok(event_stream(text))
}

struct ListFeed {
    visit: Visit,
    list: List,
    input: Input,
    due: Option<Instant>,
}

impl ListFeed {
    /// The next text for the browser; none when it is over.
    async fn step(&mut self) -> Option<String> {
        loop {
            match self.input.next(self.due).await {
                Incoming::Due => {
                    self.due = None;
                    let (visit, list) = (&self.visit, self.list);
                    let made = async {
                        let list = list.render(visit).await.ok()?;
                        visit.is_signed_in().await.then(|| replace(&list))
                    };
                    return self.input.meanwhile(made).await;
                }
                Incoming::Frame(frame) if frame.data.is_empty() => {
                    let goes_on = self.input.meanwhile(self.visit.is_signed_in()).await;
                    return goes_on.then(|| ":\n\n".to_owned());
                }
                Incoming::Frame(_) => {
                    self.due.get_or_insert_with(|| Instant::now() + LIST_EVERY);
                }
                Incoming::End => return None,
            }
        }
    }
}

/// `GET /console/runs/{runId}/live?tab&after`
pub(crate) async fn of_run(visit: Visit, Path(run_id): Path<String>) -> Result<Response, Trouble> {
    let api = format!("/v1/runs/{}", segment(&run_id));
    let run = visit.get(&api).await?;
    let definition = definition(&visit, &run).await?;
    let seen = visit.last_seen.or_else(|| visit.query.number("after"));
    let path = format!("{api}/events?streamMode=debug");
    let frames = visit.console.api().follow(&visit.who.key_id, &path, seen).await?;
    let input = Input::new(frames);
    let feed = RunFeed {
        api,
        tab: Tab::read(visit.query.get("tab")),
        narrow: Narrow {
            kind: visit.query.get("type").to_owned(),
            node: visit.query.get("node").to_owned(),
        },
        names: Names::of(definition.as_ref()),
        // Not there yet before the first event, which then is the beginning.
        began: time(&run, "/startedAt").or_else(|| time(&run, "/createdAt")),
        definition,
        is_stale: seen.is_none() || whole(&run, "/lastSequence") != seen,
        // The header may be older than the stream, unless nothing has happened since the page was made.
        due: (seen.is_none() || whole(&run, "/lastSequence") != seen).then(Instant::now),
        run,
        made: None,
        asked: Instant::now(),
        came: None,
        origin: None,
        is_over: false,
        visit,
    };
    let text = stream::unfold((feed, input), |(mut feed, mut input)| async move {
        let text = feed.step(&mut input).await?;
        Some((Ok::<_, std::convert::Infallible>(text), (feed, input)))
    });
    Ok(event_stream(text))
}

struct RunFeed {
    visit: Visit,
    api: String,
    tab: Tab,
    narrow: Narrow,
    names: Names,
    began: Option<Timestamp>,
    definition: Option<Value>,
    due: Option<Instant>,
    /// The run as it was read last, and whether something has happened since that its header tells.
    run: Value,
    is_stale: bool,
    /// When pieces were made last, and when it was asked last whether the session goes on.
    made: Option<Instant>,
    asked: Instant,
    /// When an event came last.
    came: Option<Instant>,
    /// Where the run came from, which does not change.
    origin: Option<Value>,
    is_over: bool,
}

impl RunFeed {
    async fn step(&mut self, input: &mut Input) -> Option<String> {
        if self.is_over {
            return None;
        }
        let incoming = input.next(self.due).await;
        if !input.meanwhile(self.is_signed_in()).await {
            return None;
        }
        match incoming {
            Incoming::Due => {
                self.due = None;
                input.meanwhile(self.pieces()).await.ok()
            }
            Incoming::Frame(frame) => Some(self.rows(frame, input)),
            Incoming::End => {
                self.is_over = true;
                let last = self.pieces().await.ok()?;
                Some(last)
            }
        }
    }

    /// Whether whoever looks is still signed in. It is asked once in a while of events, and always after a while of none.
    async fn is_signed_in(&mut self) -> bool {
        if self.asked.elapsed() < ASKED_EVERY {
            return true;
        }
        self.asked = Instant::now();
        self.visit.is_signed_in().await
    }

    /// The rows of this frame and of those that came with it, as one piece: what is sent together costs one write. Of a page of
    /// the log, none waits for another.
    fn rows(&mut self, first: Frame, input: &mut Input) -> String {
        let mut text = String::new();
        let mut next = Some(first);
        while let Some(frame) = next {
            if !frame.data.is_empty() {
                text.push_str(&self.row(&frame));
                self.is_stale |= changes_header(&frame.kind);
                if let Some(sequence) = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok()) {
                    self.run["lastSequence"] = sequence.into();
                }
            }
            next = if text.len() < LARGEST_PIECE { input.take() } else { None };
        }
        if text.is_empty() {
            return ":\n\n".to_owned();
        }
        let now = Instant::now();
        let soon = now + SOON;
        let due = self.made.map_or(soon, |made| soon.max(made + EVERY));
        self.due.get_or_insert(due);
        self.came = Some(now);
        text
    }

    fn row(&self, frame: &Frame) -> String {
        let event: Value = serde_json::from_str(&frame.data).unwrap_or_default();
        let row = match self.tab {
            Tab::Story => story_row(&event, &self.names, self.began),
            Tab::Log if self.narrow.admits(&event) => {
                log_row(&event, &self.names, self.began, self.visit.may("runs:create"))
            }
            Tab::Log | Tab::Waterfall | Tab::Graph | Tab::State => maud::html! {},
        };
        message("row", frame.id.as_deref(), &row.into_string())
    }

    /// Header and picture as they are now. When the run has ended the browser is told not to come back.
    async fn pieces(&mut self) -> Result<String, Trouble> {
        let now = Instant::now();
        self.made = Some(now);
        // Of a run with many nodes, reading it costs as much as hundreds of rows.
        let has_picture = matches!(self.tab, Tab::Waterfall | Tab::Graph);
        if self.is_stale || self.is_over || has_picture {
            self.run = self.visit.get(&self.api).await?;
            self.is_stale = false;
        }
        let run = &self.run;
        if self.origin.is_none() {
            self.origin = Some(ancestry(&self.visit, run).await?);
        }
        let mut origin = self.origin.clone().unwrap_or_default();
        // What runs and has just moved does not wait; it is looked at once more when it has been quiet.
        if text(run, "/status") == "running" && self.came.is_some_and(|came| came.elapsed() < EVERY)
        {
            self.due = Some(now + EVERY);
        } else {
            origin = with_wait(&self.visit, run, origin).await?;
        }
        let mut pieces = replace(&head(&self.visit, run, &origin, &self.names));
        if has_picture {
            let picture =
                picture(&self.visit, run, self.definition.as_ref(), &self.names, self.tab).await?;
            pieces.push_str(&replace(&maud::html! { div #picture { (picture) } }));
        }
        if self.is_over && has_ended(run) {
            pieces.push_str(&message("done", None, "done"));
        }
        Ok(pieces)
    }
}

/// Whether an event can change what stands over the tabs of a run: its state, what it waits for, what it cost. What nodes and
/// tools do by themselves cannot, and that is most of a log.
fn changes_header(kind: &str) -> bool {
    let family = kind.split('.').next().unwrap_or_default();
    !matches!(
        (family, kind),
        ("output" | "channel" | "variable" | "log" | "memory" | "artifact", _)
            | (_, "node.started" | "node.completed" | "node.skipped" | "node.retried")
            | (
                _,
                "agent.reasoned"
                    | "agent.reasoning.delta"
                    | "agent.toolCalled"
                    | "agent.toolReturned"
            )
    )
}

fn event_stream(
    text: impl Stream<Item = Result<String, std::convert::Infallible>> + Send + 'static,
) -> Response {
    let opened = stream::iter([Ok("retry: 1000\n\n".to_owned())]);
    let mut response = Body::from_stream(opened.chain(text)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn replace(piece: &Markup) -> String {
    message("replace", None, &piece.0)
}

/// A message for the browser. Without text only its id is noted there.
fn message(name: &str, id: Option<&str>, text: &str) -> String {
    let mut message = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    if !text.is_empty() {
        message.push_str(&format!("event: {name}\n"));
        for line in text.split(['\n', '\r']) {
            message.push_str(&format!("data: {line}\n"));
        }
    }
    message.push('\n');
    message
}

/// The frames of a stream, put together from its bytes.
struct Input {
    frames: Pin<Box<Frames>>,
    /// What has come; all before `read` has been taken.
    rest: Vec<u8>,
    read: usize,
    has_ended: bool,
}

enum Incoming {
    Frame(Frame),
    Due,
    End,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    id: Option<String>,
    /// The type of the event.
    kind: String,
    data: String,
}

impl Input {
    fn new(frames: Frames) -> Self {
        Self { frames: Box::pin(frames), rest: Vec::new(), read: 0, has_ended: false }
    }

    /// The next frame, or the moment for which something is due.
    async fn next(&mut self, due: Option<Instant>) -> Incoming {
        loop {
            if let Some(frame) = self.take() {
                return Incoming::Frame(frame);
            }
            if self.has_ended {
                return Incoming::End;
            }
            let moment = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            // Losing either is fine: bytes stay in the stream, and the moment is asked for again.
            tokio::select! {
                () = self.read() => {}
                () = moment => return Incoming::Due,
            }
        }
    }

    /// Does something else that asks the host, and reads on at the same time. The stream may be waiting for its turn at the
    /// database, where turns are given in order: left alone, it would keep a turn that it does not take, and with as many open
    /// pages as there are turns each would wait for another's.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            // Whatever is under way ends with bytes; only then may the stream be left alone.
            if self.has_ended || self.rest.len() > LARGEST_FRAME {
                return work.await;
            }
            tokio::select! {
                done = &mut work => return done,
                () = self.read() => {}
            }
        }
    }

    /// The next bytes. What is larger than any frame is the end, as is a broken stream.
    async fn read(&mut self) {
        match self.frames.next().await {
            Some(Ok(bytes)) if self.rest.len() + bytes.len() <= 2 * LARGEST_FRAME => {
                self.rest.extend(bytes);
            }
            _ => self.has_ended = true,
        }
    }

    /// The next whole frame of what is here. A page of many frames is moved once and not with each of them.
    fn take(&mut self) -> Option<Frame> {
        let rest = self.rest.get(self.read..).unwrap_or_default();
        let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") else {
            self.rest.drain(..self.read);
            self.read = 0;
            return None;
        };
        let frame = Frame::read(&String::from_utf8_lossy(&rest[..end + 2]));
        self.read += end + 2;
        Some(frame)
    }
}

impl Frame {
    fn read(text: &str) -> Self {
        let mut frame = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => frame.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut frame.kind),
                "data" => frame.data.push_str(value),
                _ => {}
            }
        }
        // The id goes on to the browser and comes back in a header.
        frame.id = frame.id.filter(|id| id.bytes().all(|sign| sign.is_ascii_digit()));
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_written() {
        let frame = Frame::read("id: 7\nevent: run.started\ndata: {\"a\":1}\n\n");
        let kind = "run.started".to_owned();
        assert_eq!(frame, Frame { id: Some("7".into()), kind, data: "{\"a\":1}".into() });
        assert_eq!(Frame::read(":keep-alive\n\n"), Frame::default());
        assert_eq!(Frame::read("id: 1\rid: x\n\n").id, None);
        assert_eq!(
            message("row", Some("3"), "<a>\n</a>"),
            "id: 3\nevent: row\ndata: <a>\ndata: </a>\n\n"
        );
        assert_eq!(message("row", Some("3"), ""), "id: 3\n\n");
    }

    #[tokio::test]
    async fn frames_that_come_together_are_taken_one_by_one() {
        let pieces = ["id: 1\ndata: a\n\nid: 2\nda", "ta: b\n\n:\n\nid: 3\ndata: c\n\nid: 4"];
        let pieces = pieces.map(|piece| Ok(piece.as_bytes().to_vec()));
        let mut input = Input::new(Box::pin(stream::iter(pieces)));
        let mut seen = Vec::new();
        while let Incoming::Frame(frame) = input.next(None).await {
            seen.push((frame.id.unwrap_or_default(), frame.data));
        }
        let whole = [("1", "a"), ("2", "b"), ("", ""), ("3", "c")];
        assert_eq!(seen, whole.map(|(id, data)| (id.to_owned(), data.to_owned())));
        assert_eq!((input.rest.as_slice(), input.read), (b"id: 4".as_slice(), 0));
    }

    #[test]
    fn a_header_is_read_again_when_it_may_have_changed() {
        for kind in
            ["run.paused", "interrupt.requested", "provider.usage", "node.suspended", "acme.new"]
        {
            assert!(changes_header(kind), "{kind}");
        }
        for kind in ["node.started", "node.completed", "output.chunk", "channel.written"] {
            assert!(!changes_header(kind), "{kind}");
        }
    }

    #[test]
    fn no_text_breaks_out_of_its_message() {
        let sent = message("row", None, "x\r\n\ndata: y\n\nevent: replace");
        assert!(
            sent.lines().skip(1).all(|line| line.is_empty() || line.starts_with("data: ")),
            "{sent}"
        );
    }
}
