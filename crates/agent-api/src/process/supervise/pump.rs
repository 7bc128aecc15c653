//! Standard output: lines into events, one after the other.

use tokio::process::ChildStdout;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::feed::Input;
use super::sink::Sink;
use super::{LINGER, Limits, Stop, after};
use crate::event::AgentEvent;
use crate::permission::Decision;
use crate::process::lines::{Line, Lines};
use crate::sessions::SessionBook;
use crate::transcript::Transcript;

/// What may still lie in the pipe of a dead agent: the largest size that a pipe can have by default.
const IN_THE_PIPE: usize = 1024 * 1024;

/// State that the reader shares with the rest of the run.
#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) exited: &'a CancellationToken,
    pub(super) hung_up: &'a CancellationToken,
    /// How many decisions came before the one that the agent waits for, if it waits.
    pub(super) asks: &'a watch::Sender<Option<u64>>,
}

enum Next {
    Read(usize),
    Decided(Decision),
}

pub(super) struct Pump {
    lines: Lines<ChildStdout>,
    pub(super) transcript: Transcript,
    sessions: Option<SessionBook>,
    limits: Limits,
    decided: u64,
}

impl Pump {
    pub(super) fn new(
        stdout: ChildStdout,
        transcript: Transcript,
        sessions: Option<SessionBook>,
        limits: Limits,
    ) -> Self {
        let lines = Lines::new(stdout, limits.line_bytes);
        Self { lines, transcript, sessions, limits, decided: 0 }
    }

    /// Reads to the end of the pipe, or until the agent has exited and those who hold the pipe are quiet.
    pub(super) async fn run(
        &mut self,
        sink: &mut Sink,
        mut input: Input,
        decisions: &mut Option<mpsc::Receiver<Decision>>,
        marks: Marks<'_>,
    ) -> Result<(), Stop> {
        let Marks { exited, hung_up, asks } = marks;
        let mut read_after_exit = 0;
        while read_after_exit < IN_THE_PIPE {
            let quiet = async {
                exited.cancelled().await;
                sleep(LINGER).await;
            };
            // Who waits for us is not idle.
            let silence = self.limits.idle.filter(|_| !self.transcript.asks());
            let idle = async {
                tokio::select! {
                    () = after(silence) => {}
                    () = exited.cancelled() => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                read = self.lines.ready() => Next::Read(read.unwrap_or_default()),
                decision = decided(decisions) => Next::Decided(decision),
                () = quiet => Next::Read(0),
                () = idle => return Err(Stop::Idle),
            };
            let read = match next {
                Next::Read(0) => break,
                Next::Read(read) => read,
                Next::Decided(decision) => {
                    let events = self.transcript.decide(&decision);
                    self.decided += 1;
                    self.mark(asks);
                    self.hand_on(events, sink, &mut input).await;
                    continue;
                }
            };
            if exited.is_cancelled() {
                read_after_exit += read;
            }
            self.pass_on(sink, &mut input, asks).await;
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
    async fn pass_on(
        &mut self,
        sink: &mut Sink,
        input: &mut Input,
        asks: &watch::Sender<Option<u64>>,
    ) {
        while let Some(line) = self.lines.next_ready() {
            let events = match line {
                Line::Whole(line) => self.transcript.read_line(line),
                Line::TooLong(bytes) => self.transcript.skip_line(bytes),
            };
            // Stored before it is reported: a caller who knows of a session can resume it.
            if let Some((book, id)) = self.sessions.as_ref().zip(self.transcript.session()) {
                book.remember(id);
                self.sessions = None;
            }
            // Stored before it is reported: a consumer who does not listen cannot block the agent for ever.
            self.mark(asks);
            self.hand_on(events, sink, input).await;
        }
    }

    fn mark(&self, asks: &watch::Sender<Option<u64>>) {
        let now = self.transcript.asks().then_some(self.decided);
        asks.send_if_modified(|known| std::mem::replace(known, now) != now);
    }

    async fn hand_on(&mut self, events: Vec<AgentEvent>, sink: &mut Sink, input: &mut Input) {
        for event in events {
            sink.send(event).await;
        }
        for answer in self.transcript.take_answers() {
            input.send(format!("{answer}\n").into_bytes()).await;
        }
    }

    pub(super) async fn drain(&mut self) {
        self.lines.drain().await;
    }
}

/// Whoever does not attend decides nothing.
async fn decided(decisions: &mut Option<mpsc::Receiver<Decision>>) -> Decision {
    if let Some(receiver) = decisions
        && let Some(decision) = receiver.recv().await
    {
        return decision;
    }
    std::future::pending().await
}
