//! One open event stream: reads the log from a cursor, shows what the mode admits, waits when there is nothing.
//!
//! Nobody feeds a stream. It reads pages at its own pace, so a slow client slows only itself, and an
//! idle one costs a cursor and a timer. What is made for a client is what it is about to take, not more.

pub(crate) mod frames;
mod lifeline;
mod snapshots;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::{future, io};

use axum::body::{Body, Bytes};
use callboard_core::stream::StreamModes;
use callboard_engine::{Page, Recorded, Watcher};
use callboard_protocol::{Event, RunId};
use futures_util::stream;

use crate::app::Host;
use crate::keys::Caller;
use crate::log::PAGE;
use crate::metrics::OpenStream;
use crate::problem::Problem;
use crate::v2::run_projection::RunProjection;
use frames::{Batch, Frame};

pub(crate) use lifeline::{KEEP_ALIVE, Lifeline};
pub(crate) use snapshots::Snapshots;

/// Every event becomes a snapshot, so a page that turns into them is short.
const VALUES_PAGE: usize = 16;
/// A page whose events came to more than this is followed by short ones.
const LARGE_TEXT: usize = 1024 * 1024;
const SHORT_PAGE: usize = 4;

/// What a client asked to follow.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) run: RunId,
    pub(crate) modes: StreamModes,
    /// Zero sends every event at once.
    pub(crate) buffer: Duration,
    /// The last event that the client has seen.
    pub(crate) last_seen: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Follow {
    line: Lifeline,
    run: RunId,
    modes: StreamModes,
    lens: Lens,
    batch: Option<Batch>,
    /// The sequence to read next.
    next: u64,
    /// How many events to read at once.
    page: usize,
    /// How long the log was when it was last read.
    version: u64,
    /// Made and not taken yet.
    pieces: VecDeque<Bytes>,
    state: State,
    /// Speaks the protocol's second major.
    projection: Option<Box<RunProjection>>,
    _open: OpenStream,
}

/// How an event becomes a frame.
#[derive(Debug)]
enum Lens {
    /// As it is logged.
    Events,
    /// Chunks of text without their envelope.
    Chunks,
    /// The run as it stands after the event.
    Values(Box<Watcher>),
    /// The run as it stands now, because it is large.
    Latest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A values stream that was resumed begins with where the run stands.
    Opening {
        at: u64,
    },
    Reading,
    Over,
}

/// Why a wait ended.
enum Wake {
    Grown,
    Quiet,
    BatchDue,
    Stop,
}

impl Follow {
    /// None: there is no such run for this caller.
    pub(crate) async fn open(
        host: &Arc<Host>,
        caller: Caller,
        asked: Subscription,
        projection: Option<Box<RunProjection>>,
    ) -> Result<Option<Self>, Problem> {
        let engine = &host.app.engine;
        let Some(found) = engine.store().find(&caller.scope, &asked.run).await? else {
            return Ok(None);
        };
        let is_large = found.snapshot.as_ref().is_some_and(|json| json.len() > snapshots::LARGE);
        let lens = if asked.modes.is_values() && is_large {
            Lens::Latest
        } else if asked.modes.is_values() {
            let Some(watcher) = engine.watch(&caller.scope, &asked.run).await? else {
                return Ok(None);
            };
            Lens::Values(Box::new(watcher))
        } else if asked.modes.is_messages() {
            Lens::Chunks
        } else {
            Lens::Events
        };
        let state = match (&lens, asked.last_seen) {
            (Lens::Values(_) | Lens::Latest, Some(seen)) => {
                State::Opening { at: seen.saturating_add(1).min(found.version) }
            }
            _ => State::Reading,
        };
        let page = match lens {
            Lens::Values(_) => VALUES_PAGE,
            Lens::Latest => 1,
            Lens::Events | Lens::Chunks => PAGE,
        };
        Ok(Some(Self {
            line: Lifeline::new(Arc::clone(host), caller),
            run: asked.run,
            modes: asked.modes,
            lens,
            batch: (!asked.buffer.is_zero()).then(|| Batch::new(asked.buffer)),
            next: asked.last_seen.map_or(0, |seen| seen.saturating_add(1)),
            page,
            version: found.version,
            pieces: VecDeque::new(),
            state,
            projection,
            _open: OpenStream::new(),
        }))
    }

    /// The stream as a body. It ends with the run, the key, the host, or when nobody reads any more.
    pub(crate) fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut follow| async move {
            let item = follow.step().await.transpose()?;
            Some((item, follow))
        }))
    }

    /// The next piece of text to send; None when it is over.
    async fn step(&mut self) -> Result<Option<Bytes>, io::Error> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(self.line.sent(piece)));
            }
            let text = match self.state {
                State::Over => return Ok(None),
                _ if self.line.is_over() => Some(self.end()),
                State::Opening { at } => self.opening(at).await.map_err(broken)?,
                State::Reading => self.read().await.map_err(broken)?,
            };
            let text = match text {
                Some(text) => text,
                None => match self.wait().await {
                    Wake::Grown => continue,
                    Wake::Quiet => KEEP_ALIVE.to_owned(),
                    Wake::BatchDue => self.flush(),
                    Wake::Stop => self.end(),
                },
            };
            // A log that grows all the time must still let a batch out, and a sign of life.
            let text = if text.is_empty() && self.batch.as_ref().is_some_and(Batch::is_due) {
                self.flush()
            } else {
                text
            };
            if !text.is_empty() {
                return Ok(Some(self.line.sent(text.into())));
            }
            if self.line.is_due() && self.state == State::Reading && self.pieces.is_empty() {
                return Ok(Some(self.line.sent(Bytes::from_static(KEEP_ALIVE.as_bytes()))));
            }
        }
    }

    async fn opening(&mut self, at: u64) -> Result<Option<String>, Problem> {
        let text = match &mut self.lens {
            Lens::Values(watcher) => {
                let frame = frames::snapshot(watcher, at, self.projection.as_deref()).await?;
                Some(self.show(frame))
            }
            Lens::Latest => self.latest().await?,
            Lens::Events | Lens::Chunks => Some(String::new()),
        };
        // Without room for a snapshot, it is tried again.
        if text.is_some() && self.state != State::Over {
            self.state = State::Reading;
        }
        Ok(text)
    }

    /// Shows a large run as it stands, and passes over what led there. None: there is no room for it now.
    async fn latest(&mut self) -> Result<Option<String>, Problem> {
        let Lifeline { host, caller, .. } = &self.line;
        let newest = host.snapshots.newest(host, caller, &self.run, self.version).await?;
        let Some(snapshot) = newest else { return Ok(None) };
        let id = snapshot.id();
        if let Some(projection) = &self.projection {
            self.next = self.next.max(snapshot.version);
            let frame = frames::told_snapshot(id, projection.snapshot(snapshot.text())?);
            return Ok(Some(self.show(frame)));
        }
        let (name, begin, end) = match self.batch {
            Some(_) => ("batch", "[", "]"),
            None => ("state.snapshot", "", ""),
        };
        let head = format!("id: {id}\nevent: {name}\ndata: {begin}{{\"atSeq\":{id},");
        self.pieces.extend([head.into(), snapshot.fields(), format!("{end}\n\n").into()]);
        self.next = self.next.max(snapshot.version);
        Ok(Some(String::new()))
    }

    /// Reads one page. None: there was nothing new. An empty text: nothing of it is shown.
    async fn read(&mut self) -> Result<Option<String>, Problem> {
        let Lifeline { host, caller, .. } = &self.line;
        let store = host.app.engine.store();
        let page = store.read(&caller.scope, &self.run, self.next, self.page).await;
        let Some(page) = self.line.patient(page).await? else { return Ok(Some(String::new())) };
        let Some(Page { status, version, events }) = page else { return Ok(Some(self.end())) };
        self.version = version;
        if events.is_empty() {
            return Ok(status.is_terminal().then(|| self.end()));
        }
        if let (Lens::Latest, [event, ..]) = (&self.lens, &events[..]) {
            if self.modes.admits(&event.kind) {
                return self.latest().await;
            }
            self.next = event.sequence + 1;
            return Ok(Some(String::new()));
        }
        let mut text = String::new();
        for event in &events {
            self.next = event.sequence + 1;
            if let Some(frame) = self.frame_of(event).await? {
                if matches!(self.lens, Lens::Values(_)) && frame.len() > snapshots::LARGE {
                    // From here on only where it stands. What was made before goes out first.
                    (self.lens, self.page, self.next) = (Lens::Latest, 1, event.sequence);
                    return Ok(Some(text + &self.flush()));
                }
                text.push_str(&self.show(frame));
            }
            if Event::is_terminal(&event.kind) {
                text.push_str(&self.end());
            } else if event.kind == "node.suspended" {
                text.push_str(&self.flush());
            }
        }
        if text.len() > LARGE_TEXT {
            self.page = SHORT_PAGE;
        }
        Ok(Some(text))
    }

    async fn frame_of(&mut self, event: &Recorded) -> Result<Option<Frame>, Problem> {
        if !self.modes.admits(&event.kind) {
            return Ok(None);
        }
        let frame = match &mut self.lens {
            // `read` shows those.
            Lens::Latest => return Ok(None),
            Lens::Values(watcher) => {
                frames::snapshot(watcher, event.sequence + 1, self.projection.as_deref()).await?
            }
            Lens::Events | Lens::Chunks => {
                let is_chunk = matches!(self.lens, Lens::Chunks);
                match &mut self.projection {
                    None if is_chunk => frames::chunk(event),
                    None => frames::event(event),
                    Some(projection) => {
                        let told = projection.event(event).await?;
                        if is_chunk { frames::told_chunk(told) } else { frames::told(told) }
                    }
                }
            }
        };
        Ok(Some(frame))
    }

    /// A frame goes out at once, or into the batch.
    fn show(&mut self, frame: Frame) -> String {
        match &mut self.batch {
            None => frame.into_text(),
            Some(batch) => {
                batch.push(frame);
                String::new()
            }
        }
    }

    fn flush(&mut self) -> String {
        self.batch.as_mut().map(Batch::take).unwrap_or_default()
    }

    fn end(&mut self) -> String {
        self.state = State::Over;
        self.flush()
    }

    async fn wait(&self) -> Wake {
        let store = self.line.host.app.engine.store();
        let batch_due = async {
            match self.batch.as_ref().and_then(Batch::due) {
                Some(due) => tokio::time::sleep_until(due).await,
                None => future::pending().await,
            }
        };
        // Losing any of these waits is fine: each is begun again from what the log and the clock say.
        tokio::select! {
            () = store.changed(&self.run, self.version) => Wake::Grown,
            () = batch_due => Wake::BatchDue,
            () = self.line.lapse() => if self.line.is_over() { Wake::Stop } else { Wake::Quiet },
        }
    }
}

/// The client sees a broken connection, not an end: it will come back with the last id it saw.
pub(crate) fn broken(problem: Problem) -> io::Error {
    io::Error::other(problem.message)
}
