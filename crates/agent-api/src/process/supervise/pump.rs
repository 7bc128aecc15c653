//! Standard output: lines into events, one after the other.

use tokio::process::ChildStdout;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::feed::Input;
use super::sink::Sink;
use super::{LINGER, Limits, Stop, after};
use crate::process::lines::{Line, Lines};
use crate::sessions::SessionBook;
use crate::transcript::Transcript;

/// What may still lie in the pipe of a dead agent: the largest size that a pipe can have by default.
const IN_THE_PIPE: usize = 1024 * 1024;

pub(super) struct Pump {
    lines: Lines<ChildStdout>,
    pub(super) transcript: Transcript,
    sessions: Option<SessionBook>,
    limits: Limits,
}

impl Pump {
    pub(super) fn new(
        stdout: ChildStdout,
        transcript: Transcript,
        sessions: Option<SessionBook>,
        limits: Limits,
    ) -> Self {
        Self { lines: Lines::new(stdout, limits.line_bytes), transcript, sessions, limits }
    }

    /// Reads to the end of the pipe, or until the agent has exited and those who hold the pipe are quiet.
    pub(super) async fn run(
        &mut self,
        sink: &mut Sink,
        mut input: Input,
        exited: &CancellationToken,
        hung_up: &CancellationToken,
    ) -> Result<(), Stop> {
        let mut read_after_exit = 0;
        while read_after_exit < IN_THE_PIPE {
            let quiet = async {
                exited.cancelled().await;
                sleep(LINGER).await;
            };
            let idle = async {
                tokio::select! {
                    () = after(self.limits.idle) => {}
                    () = exited.cancelled() => std::future::pending().await,
                }
            };
            let read = tokio::select! {
                biased;
                read = self.lines.ready() => read.unwrap_or_default(),
                () = quiet => 0,
                () = idle => return Err(Stop::Idle),
            };
            if read == 0 {
                break;
            }
            if exited.is_cancelled() {
                read_after_exit += read;
            }
            self.pass_on(sink, &mut input).await;
            if self.transcript.has_hung_up() {
                input.close();
                hung_up.cancel();
            }
        }
        let events = match self.lines.last() {
            Some(Line::Whole(line)) => self.transcript.read_line(line),
            Some(Line::TooLong(bytes)) => self.transcript.skip_line(bytes),
            None => Vec::new(),
        };
        for event in events {
            sink.send(event).await;
        }
        Ok(())
    }

    /// Passes on every line that is whole. Waits where the consumer is slow.
    async fn pass_on(&mut self, sink: &mut Sink, input: &mut Input) {
        while let Some(line) = self.lines.next_ready() {
            let events = match line {
                Line::Whole(line) => self.transcript.read_line(line),
                Line::TooLong(bytes) => self.transcript.skip_line(bytes),
            };
            // Kept before it is told: whoever reads of a session can resume it.
            if let Some((book, id)) = self.sessions.as_ref().zip(self.transcript.session()) {
                book.remember(id);
                self.sessions = None;
            }
            for event in events {
                sink.send(event).await;
            }
            for answer in self.transcript.take_answers() {
                input.send(format!("{answer}\n").into_bytes()).await;
            }
        }
    }

    pub(super) async fn drain(&mut self) {
        self.lines.drain().await;
    }
}
