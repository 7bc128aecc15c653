//! A run's live events as one sequence, across any number of reconnects.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;

use callboard_protocol::{Event, RunEvent, RunId, RunStatus};

use crate::client::Client;
use crate::exit::CommandError;

/// The first wait before coming back to a host that went away; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A host that restarts is back within seconds; after about a minute of tries a person should know.
const MOST_TRIES: u32 = 16;

/// What a follower learns next.
#[derive(Debug)]
pub(crate) enum Heard {
    Frame(Frame),
    /// The host is away; the next call waits and tries again.
    Lost,
    /// It is back, and nothing was missed.
    Back,
    /// The run has ended and everything was shown.
    End,
}

/// One server-sent event.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl Frame {
    /// The event of the log, where the stream mode sends those.
    pub(crate) fn run_event(&self) -> Option<RunEvent> {
        serde_json::from_str(&self.data).ok()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

/// Follows one run.
#[derive(Debug)]
pub(crate) struct EventStream<'c> {
    client: &'c Client,
    run: RunId,
    mode: String,
    last: Option<u64>,
    open: Option<Open>,
    tries: u32,
    ended: bool,
}

#[derive(Debug)]
struct Open {
    response: Response,
    frames: FrameReader,
    is_silent: bool,
}

impl<'c> EventStream<'c> {
    /// Opens the stream, so that a wrong id or key is known before anything is shown.
    pub(crate) async fn open(
        client: &'c Client,
        run: &RunId,
        mode: &str,
    ) -> Result<Self, CommandError> {
        let response = client.stream(run.as_str(), mode, None).await?;
        let open = Some(Open { response, frames: FrameReader::default(), is_silent: true });
        Ok(Self {
            client,
            run: run.clone(),
            mode: mode.to_owned(),
            last: None,
            open,
            tries: 0,
            ended: false,
        })
    }

    /// Waits for the next thing to show. Dropping the future loses nothing but a wait.
    pub(crate) async fn next(&mut self) -> Result<Heard, CommandError> {
        loop {
            if self.ended {
                return Ok(Heard::End);
            }
            let Some(open) = &mut self.open else {
                match self.come_back().await? {
                    Some(heard) => return Ok(heard),
                    None => continue,
                }
            };
            if let Some(frame) = open.frames.next() {
                open.is_silent = false;
                self.last = frame.id.or(self.last);
                self.ended = ends_the_stream(&frame);
                return Ok(Heard::Frame(frame));
            }
            if let Ok(Some(bytes)) = open.response.chunk().await {
                open.frames.push(&bytes);
                continue;
            }
            let was_silent = open.is_silent;
            self.open = None;
            self.ended = was_silent && self.is_over().await;
        }
    }

    /// A stream that ends without a terminal event is complete only if the run has ended too.
    async fn is_over(&self) -> bool {
        self.client
            .run(self.run.as_str())
            .await
            .is_ok_and(|(_, snapshot)| snapshot.status.is_terminal())
    }

    /// Tries once more. A first try that works is not worth a word: hosts close streams when they restart.
    async fn come_back(&mut self) -> Result<Option<Heard>, CommandError> {
        let wait = FIRST_WAIT.saturating_mul(1 << self.tries.min(8)).min(LONGEST_WAIT);
        tokio::time::sleep(wait).await;
        match self.client.stream(self.run.as_str(), &self.mode, self.last).await {
            Ok(response) => {
                let was_away = std::mem::take(&mut self.tries) > 0;
                self.open =
                    Some(Open { response, frames: FrameReader::default(), is_silent: true });
                Ok(was_away.then_some(Heard::Back))
            }
            Err(error) if self.tries < MOST_TRIES && error.is_passing() => {
                self.tries += 1;
                Ok((self.tries == 1).then_some(Heard::Lost))
            }
            Err(error) => Err(error.hint(format!(
                "the run may still be active: `callboard runs events {} --follow` follows it again",
                self.run
            ))),
        }
    }
}

/// The last frame of a run: its terminal event, or the snapshot that shows a terminal status.
fn ends_the_stream(frame: &Frame) -> bool {
    let status =
        || frame.json().get("status").and_then(Value::as_str).and_then(RunStatus::from_name);
    Event::is_terminal(&frame.event)
        || (frame.event == "state.snapshot" && status().is_some_and(RunStatus::is_terminal))
}

/// Cuts a stream of bytes into frames, wherever the network cut it before.
#[derive(Debug, Default)]
struct FrameReader {
    bytes: Vec<u8>,
    /// How much of `bytes` has been read already.
    read: usize,
    partial: Frame,
}

impl FrameReader {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<Frame> {
        loop {
            let rest = self.bytes.get(self.read..)?;
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = String::from_utf8_lossy(rest.get(..end)?).trim_end_matches('\r').to_owned();
            self.read += end + 1;
            if !line.is_empty() {
                self.take(&line);
            } else if !self.partial.data.is_empty() {
                return Some(std::mem::take(&mut self.partial));
            }
        }
    }

    fn take(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.partial.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.partial.event),
            "data" => {
                if !self.partial.data.is_empty() {
                    self.partial.data.push('\n');
                }
                self.partial.data.push_str(value);
            }
            // A line that begins with a colon is a comment that keeps the connection alive; other fields are not ours.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ":keepalive\n\nid: 3\nevent: run.started\ndata: {\"a\":\"ü\"}\n\nid: 4\r\nevent: x\r\ndata: 1\r\ndata: 2\r\n\r\n";

    #[test]
    fn frames_are_the_same_wherever_the_bytes_are_cut() {
        let whole = [
            Frame { id: Some(3), event: "run.started".into(), data: "{\"a\":\"ü\"}".into() },
            Frame { id: Some(4), event: "x".into(), data: "1\n2".into() },
        ];
        for cut in 0..=TEXT.len() {
            let (head, tail) = TEXT.as_bytes().split_at(cut);
            let mut reader = FrameReader::default();
            let mut frames = Vec::new();
            for part in [head, tail] {
                reader.push(part);
                frames.extend(std::iter::from_fn(|| reader.next()));
            }
            assert_eq!(frames, whole, "cut at {cut}");
        }
    }
}
