//! One conversation with the host. Whatever passes through it is checked against its schema on the way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::time::timeout;

use super::KEY;
use super::book::Book;
use super::expectations::Observed;
use super::schemas::Schemas;
use crate::sse::{Frame, Frames};
use crate::wire::{Answer, Connection, Request};

/// No answer of this host may take longer, long polls included.
pub(super) const PATIENCE: Duration = Duration::from_secs(70);

#[derive(Debug)]
pub(crate) struct Session {
    address: SocketAddr,
    pub(crate) schemas: Schemas,
    pub(crate) book: Book,
    /// Violations of schemas by bodies, since they were last read.
    complaints: Vec<String>,
    refusals: usize,
    events: usize,
    snapshots: usize,
}

impl Session {
    pub(crate) fn new(address: SocketAddr, schemas: Schemas, book: Book) -> Self {
        Self {
            address,
            schemas,
            book,
            complaints: Vec::new(),
            refusals: 0,
            events: 0,
            snapshots: 0,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Talks to another host from now on.
    pub(crate) fn turn_to(&mut self, address: SocketAddr) {
        self.address = address;
    }

    /// Sends as it is, without a key.
    pub(crate) async fn send(&mut self, request: &Request) -> Result<Answer> {
        let mut connection = Connection::open(self.address).await?;
        let answer =
            timeout(PATIENCE, connection.send(request)).await.context("no answer in time")??;
        if answer.status >= 400 {
            self.refusals += 1;
            match answer.json() {
                Ok(body) => {
                    self.complaints.extend(self.schemas.complaints("error-envelope", &body))
                }
                Err(error) => {
                    self.complaints.push(format!("a refusal without an envelope: {error:#}"))
                }
            }
        }
        Ok(answer)
    }

    /// Sends under the session's own key.
    pub(crate) async fn ask(&mut self, request: Request) -> Result<Answer> {
        self.send(&request.bearer(KEY)).await
    }

    /// Sends and expects this status.
    pub(crate) async fn expect(&mut self, status: u16, request: Request) -> Result<Value> {
        let answer = self.ask(request).await?;
        ensure!(
            answer.status == status,
            "expected {status}, got {}: {}",
            answer.status,
            answer.text()
        );
        answer.json()
    }

    /// Creates a run and answers its id.
    pub(crate) async fn create(&mut self, body: &Value) -> Result<String> {
        self.create_with(Request::post("/v1/runs", body)).await
    }

    pub(crate) async fn create_with(&mut self, request: Request) -> Result<String> {
        let created = self.expect(201, request).await?;
        let id = created["runId"].as_str().context("a created run without runId")?.to_owned();
        ensure!(created["status"].is_string(), "a created run without status");
        ensure!(created["eventsUrl"].is_string(), "a created run without eventsUrl");
        Ok(id)
    }

    pub(crate) async fn snapshot(&mut self, run: &str) -> Result<Value> {
        let snapshot = self.expect(200, Request::get(format!("/v1/runs/{run}"))).await?;
        self.note_snapshot(&snapshot);
        Ok(snapshot)
    }

    /// All events of a run that has ended.
    pub(crate) async fn log(&mut self, run: &str) -> Result<Vec<Value>> {
        let page = self.expect(200, Request::get(format!("/v1/runs/{run}/events/poll"))).await?;
        ensure!(page["isTerminal"] == true && page["isComplete"] == true, "the run has not ended");
        Ok(page["events"].as_array().context("a poll without events")?.clone())
    }

    /// Follows a run by long polls until `enough` returns true.
    pub(crate) async fn follow(
        &mut self,
        run: &str,
        within: Duration,
        enough: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>> {
        let started = Instant::now();
        let mut events: Vec<Value> = Vec::new();
        loop {
            // Zero means from the start, so the first event may come twice.
            let seen = events.len().saturating_sub(1);
            let path = format!("/v1/runs/{run}/events/poll?lastSequence={seen}&timeout=1");
            let page = self.expect(200, Request::get(path)).await?;
            for event in page["events"].as_array().context("a poll without events")? {
                if event["sequence"].as_u64() == Some(events.len() as u64) {
                    self.note_event(event);
                    events.push(event.clone());
                }
            }
            if enough(&page) {
                return Ok(events);
            }
            if started.elapsed() > within {
                bail!(
                    "not there within {within:?}; status {}, {} events",
                    page["runStatus"],
                    events.len()
                );
            }
        }
    }

    /// Waits until an event of this kind is in the log.
    pub(crate) async fn until(&mut self, run: &str, kind: &str) -> Result<()> {
        let holds = |page: &Value| {
            page["events"].as_array().is_some_and(|all| all.iter().any(|e| e["type"] == kind))
        };
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            let page = self
                .expect(200, Request::get(format!("/v1/runs/{run}/events/poll?timeout=1")))
                .await?;
            if holds(&page) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("no {kind} in the log of {run}")
    }

    /// Follows a run to its end and takes everything a reader can see of it.
    pub(crate) async fn observe(&mut self, run: &str, within: Duration) -> Result<Observed> {
        let events = self.follow(run, within, |page| page["isTerminal"] == true).await?;
        let snapshot = self.snapshot(run).await?;
        let again = self.log(run).await?;
        Ok(Observed { run: run.to_owned(), events, again, snapshot })
    }

    /// Reads a stream of frames until the server closes it.
    pub(crate) async fn stream(&mut self, request: Request) -> Result<(Answer, Vec<Frame>)> {
        let connection = Connection::open(self.address).await?;
        let request = request.header("accept", "text/event-stream").bearer(KEY);
        let read = async {
            let (answer, body) = connection.stream(&request).await?;
            let mut frames = Frames::new(body);
            let mut all = Vec::new();
            while let Some(frame) = frames.next().await? {
                if frame.comment.is_none() {
                    all.push(frame);
                }
            }
            anyhow::Ok((answer, all))
        };
        timeout(PATIENCE, read).await.context("the server did not close the stream")?
    }

    pub(crate) fn note_event(&mut self, event: &Value) {
        self.events += 1;
        self.complaints.extend(self.schemas.event_complaints(event));
    }

    pub(crate) fn note_snapshot(&mut self, snapshot: &Value) {
        self.snapshots += 1;
        self.complaints.extend(self.schemas.complaints("run-snapshot", snapshot));
    }

    pub(crate) fn note(&mut self, schema: &str, value: &Value) {
        self.complaints.extend(self.schemas.complaints(schema, value));
    }

    /// Fails if any body since the last call broke its schema.
    pub(crate) fn settle(&mut self) -> Result<()> {
        match std::mem::take(&mut self.complaints).as_slice() {
            [] => Ok(()),
            [first, rest @ ..] => bail!("{first} (and {} more)", rest.len()),
        }
    }

    /// The last lines of the book: what the schemas saw.
    pub(crate) fn close(&mut self) {
        let outcome = self.settle();
        let name = format!(
            "schemas: {} events, {} snapshots and {} refusals were checked",
            self.events, self.snapshots, self.refusals
        );
        self.book.enter(&name, outcome);
        let idle = self.schemas.idle_exceptions();
        let outcome =
            if idle.is_empty() { Ok(()) } else { Err(anyhow::anyhow!("{}", idle.join("; "))) };
        self.book.enter("schemas: every tolerated deviation still occurs", outcome);
    }
}
