//! `GET /v1/host/callboard/events`: the events of every run that a caller may see, in the order of commits.
//!
//! Heartbeats' notices go out between them as they happen. They are part of no log, so they have no id to resume from.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use callboard_engine::{HeartbeatNotice, LogPosition, Within};
use futures_util::stream;
use tokio::sync::{broadcast, watch};

use super::events::{event_stream, last_event_id};
use crate::app::Host;
use crate::follow::{KEEP_ALIVE, Lifeline, broken, frames};
use crate::keys::Caller;
use crate::metrics::OpenStream;
use crate::problem::Problem;
use crate::query::Parameters;

/// Events of all tenants per read: a busy neighbour must not make one read long.
const WINDOW: u64 = 512;
/// A read that came to more than so many bytes is followed by short ones.
const LARGE_TEXT: usize = 1024 * 1024;
const SHORT_WINDOW: u64 = 8;

/// One open stream. Ids are places in all logs together, so a client that resumes from the last one misses nothing.
#[derive(Debug)]
struct Everything {
    line: Lifeline,
    after: LogPosition,
    window: u64,
    growth: watch::Receiver<u64>,
    heartbeats: broadcast::Receiver<HeartbeatNotice>,
    _open: OpenStream,
}

pub(super) async fn follow(
    State(host): State<Arc<Host>>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::closed(&uri, &[])?;
    let after = match last_event_id(&headers)? {
        Some(seen) => LogPosition(seen),
        // A client without a cursor receives what happens from now on.
        None => host.app.logs.newest().await?,
    };
    let everything = Everything {
        growth: host.app.engine.growth(),
        heartbeats: host.app.heartbeats.listen(),
        line: Lifeline::new(host, caller),
        after,
        window: WINDOW,
        _open: OpenStream::new(),
    };
    Ok(event_stream(everything.into_body()))
}

impl Everything {
    fn into_body(self) -> Body {
        // A first line at once: a client learns that it is connected before anything happens.
        let opened = stream::iter([Ok(Bytes::from_static(b":connected\n\n"))]);
        let rest = stream::unfold(self, |mut everything| async move {
            let item = everything.step().await.transpose()?;
            Some((item.map(Bytes::from), everything))
        });
        Body::from_stream(futures_util::StreamExt::chain(opened, rest))
    }

    /// The next piece of text to send; none when it is over.
    async fn step(&mut self) -> Result<Option<String>, io::Error> {
        while !self.line.is_over() {
            // Marked before reading: what is appended meanwhile wakes the wait below.
            self.growth.mark_unchanged();
            let text = self.read().await.map_err(broken)?;
            match text {
                Some(text) if !text.is_empty() => return Ok(Some(self.line.sent(text))),
                // Past what others write the stream must not look dead.
                Some(_) if self.line.is_due() => {
                    return Ok(Some(self.line.sent(KEEP_ALIVE.to_owned())));
                }
                Some(_) => continue,
                None => {}
            }
            if let Some(text) = self.wait().await {
                return Ok(Some(self.line.sent(text)));
            }
        }
        Ok(None)
    }

    /// Reads one window. None: there is nothing behind the last one. An empty text: nothing in it is the caller's.
    async fn read(&mut self) -> Result<Option<String>, Problem> {
        let Lifeline { host, caller, .. } = &self.line;
        let within = Within::VisibleTo(caller.scope.clone());
        let window = host.app.logs.read_all(&within, self.after, self.window).await;
        let Some(window) = self.line.patient(window).await? else { return Ok(Some(String::new())) };
        if window.until <= self.after {
            return Ok(None);
        }
        self.after = window.until;
        let mut text = String::new();
        for logged in &window.events {
            text.push_str(&frames::placed(logged.position.0, &logged.event).into_text());
        }
        self.window = if text.len() > LARGE_TEXT { SHORT_WINDOW } else { WINDOW };
        Ok(Some(text))
    }

    /// Waits for growth, or for the time to say that the stream lives.
    async fn wait(&mut self) -> Option<String> {
        // Losing any of these waits is fine: each is begun again from what the logs and the clock say.
        tokio::select! {
            // The senders live as long as the engine and the pulse, which the host keeps.
            _ = self.growth.changed() => None,
            // Who is too far behind has missed some; nobody keeps them.
            told = self.heartbeats.recv() => {
                let scope = &self.line.caller.scope;
                let theirs = told.ok().filter(|told| scope.includes(&told.place));
                theirs.map(|told| frames::unplaced(&told).into_text())
            }
            () = self.line.lapse() => (!self.line.is_over()).then(|| KEEP_ALIVE.to_owned()),
        }
    }
}
