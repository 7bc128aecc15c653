//! One run from its start to its end: the only task that a run has.

use std::future::pending;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::group::{Group, Push};
use super::scratch::Scratch;
use super::spawn::{Command, Keeper, Spawned, spawn};
use crate::error::{AgentError, FailureClass};
use crate::event::AgentEvent;
use crate::handle::{AgentCompletion, AgentRunControl, RunEnd, cancelled_error, run_ends};
use crate::permission::Decision;
use crate::sessions::SessionBook;
use crate::transcript::Transcript;

mod feed;
mod noise;
mod pump;
mod sink;

use feed::{Input, feed};
use noise::Noise;
use pump::{Marks, Pump};
use sink::Sink;

/// Everything that a run needs, checked.
pub(crate) struct Launch {
    pub(crate) command: Command,
    pub(crate) keeper: Keeper,
    pub(crate) prompt: Prompt,
    pub(crate) transcript: Transcript,
    pub(crate) limits: Limits,
    pub(crate) delivery: Delivery,
    /// Said before anything else.
    pub(crate) warning: Option<&'static str>,
    pub(crate) sessions: Option<SessionBook>,
    pub(crate) attendance: Option<Attendance>,
    pub(crate) scratch: Scratch,
}

/// Somebody who decides what the agent may do beside what was granted.
pub(crate) struct Attendance {
    pub(crate) decisions: mpsc::Receiver<Decision>,
    /// How long the agent may wait for a decision.
    pub(crate) patience: Duration,
}

/// What goes to standard input.
pub(crate) enum Prompt {
    /// Nothing: the prompt was passed in another way.
    Elsewhere,
    Whole(Vec<u8>),
    /// The first line of a conversation.
    Opening(Vec<u8>),
}

/// When the consumer sees events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Live,
    AfterExit,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) total: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) kill_grace: Duration,
    pub(crate) line_bytes: usize,
}

/// How long pipes that others hold open are read after the agent has exited.
pub(crate) const LINGER: Duration = Duration::from_millis(500);
/// Exactly these words, by contract.
pub(crate) const APPROVAL_REQUIRED: &str = "approval required";
/// How long the kernel may take to end a process; beyond it something is badly wrong.
const FORCED: Duration = Duration::from_secs(5);

/// Why a run was stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Abandoned,
    TimedOut,
    Idle,
    /// Nobody has decided about what it asked for.
    Unanswered,
    /// It has said everything and does not go.
    Finished,
    /// The kernel does not say how the process ended.
    Lost,
}

/// Starts a run. From here on it proceeds whether or not anyone polls it.
pub(crate) fn start(launch: Launch) -> Result<AgentRunControl, AgentError> {
    let spawned = spawn(&launch.command, &launch.keeper)?;
    let (end, control) = run_ends();
    #[expect(
        clippy::disallowed_methods,
        reason = "the one task of a run: it ends with the process, which its handle can end"
    )]
    tokio::spawn(supervise(launch, spawned, end));
    Ok(control)
}

async fn supervise(launch: Launch, spawned: Spawned, end: RunEnd) {
    let Launch { prompt, transcript, limits, delivery, warning, sessions, scratch, .. } = launch;
    let (decisions, patience) = match launch.attendance {
        Some(Attendance { decisions, patience }) => (Some(decisions), Some(patience)),
        None => (None, None),
    };
    let Spawned { group, child, stdin, stdout, stderr, record } = spawned;
    let RunEnd { events, outcome, cancelled, abandoned } = end;
    let mut run = Run {
        group,
        child,
        pump: Pump::new(stdout, transcript, sessions, limits),
        decisions,
        patience,
        noise: Noise::new(stderr),
        sink: Sink::new(events, delivery),
        limits,
    };
    if let Some(warning) = warning {
        run.sink.send(AgentEvent::status(run.pump.transcript.kind(), warning)).await;
    }
    let (input, inputs) = Input::new(prompt);
    let watched = {
        let work = run.work(input, feed(stdin, inputs));
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(Stop::Cancelled),
            () = abandoned.cancelled() => Err(Stop::Abandoned),
            watched = work => watched,
        }
    };
    let result = run.conclude(watched, &cancelled).await;
    // The stream ends, the files go; then it may be known.
    drop(run);
    match record {
        Some(record) if is_unterminated(&result) => record.keep(),
        record => drop(record),
    }
    let _ = tokio::task::spawn_blocking(move || drop(scratch)).await;
    let _ = outcome.send(result);
}

struct Run {
    group: Group,
    child: Child,
    pump: Pump,
    decisions: Option<mpsc::Receiver<Decision>>,
    patience: Option<Duration>,
    noise: Noise,
    sink: Sink,
    limits: Limits,
}

impl Run {
    /// Goes on until the process has exited and everything that it wrote was passed on.
    async fn work(
        &mut self,
        input: Input,
        feeding: impl Future<Output = ()>,
    ) -> Result<ExitStatus, Stop> {
        let Self { group, child, pump, decisions, patience, noise, sink, limits } = self;
        let [exited, read, hung_up] = std::array::from_fn(|_| CancellationToken::new());
        let (asks, asking) = watch::channel(None);
        let leader = async {
            let status = child.wait().await.map_err(|_| Stop::Lost)?;
            exited.cancel();
            // A process that the agent started may hold the pipe; what the agent wrote before is still in there.
            tokio::select! {
                () = read.cancelled() => {}
                () = sleep(LINGER) => {}
            }
            group.end_rest().await;
            Ok(status)
        };
        let output = async {
            let marks = Marks { exited: &exited, hung_up: &hung_up, asks: &asks };
            pump.run(sink, input, decisions, marks).await?;
            read.cancel();
            Ok(())
        };
        let errors = async {
            noise.listen(&exited).await;
            Ok(())
        };
        let feeding = async {
            tokio::select! {
                () = feeding => {}
                () = exited.cancelled() => {}
            }
            Ok(())
        };
        // No clock runs once the process has exited: then only the consumer can be slow.
        let clocks = async {
            let silence = async {
                read.cancelled().await;
                after(limits.idle).await;
            };
            let farewell = async {
                hung_up.cancelled().await;
                sleep(limits.kill_grace).await;
            };
            tokio::select! {
                () = exited.cancelled() => Ok(()),
                () = after(limits.total) => Err(Stop::TimedOut),
                () = silence => Err(Stop::Idle),
                () = unanswered(asking, *patience) => Err(Stop::Unanswered),
                () = farewell => Err(Stop::Finished),
            }
        };
        let (status, (), (), (), ()) = tokio::try_join!(leader, output, errors, feeding, clocks)?;
        Ok(status)
    }

    /// Ends what still runs, decides the outcome of the run, and reports a failure as the last event.
    async fn conclude(
        &mut self,
        watched: Result<ExitStatus, Stop>,
        cancelled: &CancellationToken,
    ) -> Result<AgentCompletion, AgentError> {
        let result = match watched {
            Ok(status) => self.judge(status),
            Err(stop) => {
                if matches!(stop, Stop::Cancelled | Stop::Abandoned) {
                    self.sink.close();
                }
                match self.terminate().await {
                    None => Err(AgentError::backend(
                        FailureClass::Unterminated,
                        "the process could not be terminated",
                    )),
                    Some(status) => self.stopped(stop, status),
                }
            }
        };
        let last = result
            .as_ref()
            .err()
            .map(|error| AgentEvent::error(self.pump.transcript.kind(), error.to_string()));
        tokio::select! {
            biased;
            // Nobody waits for these any more.
            () = cancelled.cancelled() => {}
            () = self.sink.finish(last) => {}
        }
        result
    }

    fn judge(&mut self, status: ExitStatus) -> Result<AgentCompletion, AgentError> {
        self.noise.tell(&mut self.pump.transcript);
        if self.sink.has_overflowed() {
            return Err(AgentError::Backend {
                message: "the agent wrote more than can be held back".into(),
                class: FailureClass::Protocol,
                exit: Some(status.into()),
            });
        }
        self.pump.transcript.conclude(status)
    }

    fn stopped(&mut self, stop: Stop, status: ExitStatus) -> Result<AgentCompletion, AgentError> {
        let exit = Some(status.into());
        let failed = |class, message: &str| {
            Err(AgentError::Backend { message: message.into(), class, exit })
        };
        match stop {
            Stop::Cancelled | Stop::Abandoned => Err(cancelled_error(exit)),
            Stop::TimedOut => failed(FailureClass::Timeout, "timeout"),
            Stop::Idle => failed(FailureClass::Timeout, "idle timeout"),
            Stop::Unanswered => failed(FailureClass::Permission, APPROVAL_REQUIRED),
            Stop::Finished => self.judge(status),
            Stop::Lost => failed(FailureClass::Crashed, "the process was lost"),
        }
    }

    /// Asks, waits, kills. Pipes are read meanwhile, so that no process hangs in a write.
    async fn terminate(&mut self) -> Option<ExitStatus> {
        let Self { group, child, pump, noise, limits, .. } = self;
        let dying = async {
            group.push(Push::Ask);
            if let Ok(status) = timeout(limits.kill_grace, child.wait()).await {
                return status.ok();
            }
            group.push(Push::Force);
            timeout(FORCED, child.wait()).await.ok()?.ok()
        };
        let draining = async {
            tokio::join!(pump.drain(), noise.drain());
            pending().await
        };
        let status = tokio::select! {
            status = dying => status,
            status = draining => status,
        };
        if status.is_some() {
            group.end_rest().await;
        }
        status
    }
}

fn is_unterminated(result: &Result<AgentCompletion, AgentError>) -> bool {
    let class = result.as_ref().err().and_then(AgentError::class);
    class == Some(FailureClass::Unterminated)
}

/// Ends when the agent has waited for one decision for the longest allowed time.
async fn unanswered(mut asking: watch::Receiver<Option<u64>>, patience: Option<Duration>) {
    let Some(patience) = patience else { return pending().await };
    loop {
        let asked = asking.wait_for(Option::is_some).await.map(|asked| *asked);
        let Ok(asked) = asked else { return pending().await };
        tokio::select! {
            _ = asking.wait_for(|now| *now != asked) => {}
            () = sleep(patience) => return,
        }
    }
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => sleep(limit).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
