//! `GET /v1/host/callboard/events`: the events of every run that a caller may see, in the order of commits.
//!
//! What heartbeats tell goes out between them as it happens. It is part of no log, so it has no id to come back with.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use callboard_engine::{HeartbeatTold, LogPosition};
use futures_util::stream;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::events::{event_stream, last_event_id};
use crate::app::Host;
use crate::follow::{KEEP_ALIVE, broken, frames};
use crate::keys::Caller;
use crate::metrics::OpenStream;
use crate::problem::Problem;
use crate::query::Parameters;

/// Events of everybody per read: a busy neighbour must not make one read long.
const WINDOW: u64 = 512;

/// One open stream. Ids are places in all logs together, so whoever comes back with the last one misses nothing.
#[derive(Debug)]
struct Everything {
    host: Arc<Host>,
    caller: Caller,
    after: LogPosition,
    growth: watch::Receiver<u64>,
    heartbeats: broadcast::Receiver<HeartbeatTold>,
    keep_alive_at: Instant,
    is_over: bool,
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
        // Who has seen nothing hears of what happens from now on.
        None => host.app.logs.newest().await?,
    };
    let everything = Everything {
        growth: host.app.engine.growth(),
        heartbeats: host.app.pulse.listen(),
        keep_alive_at: Instant::now() + host.app.config.keep_alive,
        host,
        caller,
        after,
        is_over: false,
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
        loop {
            if self.is_over || self.must_stop() {
                return Ok(None);
            }
            // Marked before reading: what is appended meanwhile wakes the wait below.
            self.growth.mark_unchanged();
            let text = self.read().await.map_err(broken)?;
            match text {
                Some(text) if !text.is_empty() => return Ok(Some(self.alive(text))),
                Some(_) => continue,
                None => {}
            }
            if let Some(text) = self.wait().await {
                return Ok(Some(self.alive(text)));
            }
        }
    }

    /// Reads one window. None: there is nothing behind the last one. An empty text: nothing in it is the caller's.
    async fn read(&mut self) -> Result<Option<String>, Problem> {
        let window = self.host.app.logs.read_all(&self.caller.scope, self.after, WINDOW).await?;
        if window.until <= self.after {
            return Ok(None);
        }
        self.after = window.until;
        let mut text = String::new();
        for (position, event) in &window.events {
            text.push_str(&frames::placed(position.0, event).into_text());
        }
        Ok(Some(text))
    }

    /// Waits for growth, or for the time to say that the stream lives.
    async fn wait(&mut self) -> Option<String> {
        let app = &self.host.app;
        // Losing any of these waits is fine: each is begun again from what the logs and the clock say.
        tokio::select! {
            () = app.shutdown.cancelled() => self.is_over = true,
            () = self.caller.revoked.cancelled() => self.is_over = true,
            // The senders live as long as the engine and the pulse, which the host keeps.
            _ = self.growth.changed() => {}
            // Who is too far behind has missed some; nobody keeps them.
            told = self.heartbeats.recv() => {
                let theirs = told.ok().filter(|told| self.caller.scope.includes(&told.place));
                return theirs.map(|told| frames::unplaced(&told).into_text());
            }
            () = tokio::time::sleep_until(self.keep_alive_at) => {
                let is_expired = self.caller.expires_at.is_some_and(|at| at <= self.host.now());
                self.is_over = is_expired;
                return (!is_expired).then(|| KEEP_ALIVE.to_owned());
            }
        }
        None
    }

    fn must_stop(&self) -> bool {
        self.host.app.shutdown.is_cancelled() || self.caller.revoked.is_cancelled()
    }

    /// Whatever is sent is a sign of life.
    fn alive(&mut self, text: String) -> String {
        self.keep_alive_at = Instant::now() + self.host.app.config.keep_alive;
        text
    }
}
