//! The handle of a run: its events, its completion, its cancellation.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::error::{AgentError, Exit, FailureClass};
use crate::event::AgentEvent;

/// The events of one run, in the order in which they were made.
pub type AgentEvents = Pin<Box<dyn Stream<Item = AgentEvent> + Send>>;
/// How one run ended.
pub type AgentCompletionFuture =
    Pin<Box<dyn Future<Output = Result<AgentCompletion, AgentError>> + Send>>;

/// One run.
///
/// `completion` resolves when the process has exited *and* `events` has ended or was dropped. Awaiting it while
/// holding unread events therefore waits for ever: read `events` to its end first, or drop it. Dropping
/// both is a request to stop; to be certain, cancel.
pub struct AgentRunHandle {
    pub events: AgentEvents,
    pub completion: AgentCompletionFuture,
}

impl fmt::Debug for AgentRunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRunHandle").finish_non_exhaustive()
    }
}

/// One run that can be cancelled.
#[derive(Debug)]
pub struct AgentRunControl {
    pub handle: AgentRunHandle,
    pub cancel: AgentCancelHandle,
}

/// Cancels a run: any clone, any number of times, also after the handle was dropped.
///
/// The events end at once, unread ones are lost, and `completion` is the error `cancelled` as
/// soon as the process has exited, whatever its own result.
#[derive(Debug, Clone)]
pub struct AgentCancelHandle {
    cancelled: CancellationToken,
}

impl AgentCancelHandle {
    /// Does nothing once the completion has resolved.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }
}

/// A run that succeeded: the agent said so, and its process exited well.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCompletion {
    pub status: ExitStatus,
    /// The last answer, where the agent marks one. Cut at [`crate::bounds::FINAL_TEXT_BYTES`].
    pub final_text: Option<String>,
    /// The session facet, with `usage` and the number of `permission_denials`.
    pub data: Option<Value>,
}

impl AgentCompletion {
    /// The status in a form that can be stored.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.status.into()
    }
}

/// Events between the reader and a slow consumer; when they are full, the reader waits, and so does the agent.
pub(crate) const HANDED_OFF: usize = 32;

/// The reader's end of a run.
pub(crate) struct RunEnd {
    pub(crate) events: mpsc::Sender<AgentEvent>,
    pub(crate) outcome: oneshot::Sender<Result<AgentCompletion, AgentError>>,
    pub(crate) cancelled: CancellationToken,
    /// Nobody holds any part of the handle.
    pub(crate) abandoned: CancellationToken,
}

/// Makes both ends of a run.
pub(crate) fn run_ends() -> (RunEnd, AgentRunControl) {
    let (sender, events) = mpsc::channel(HANDED_OFF);
    let (outcome, outcome_receiver) = oneshot::channel();
    let cancelled = CancellationToken::new();
    let abandoned = CancellationToken::new();
    let finished = CancellationToken::new();
    let held = Arc::new(Held { abandoned: abandoned.clone() });
    let events = Events {
        receiver: Some(events),
        cancelled: Box::pin(cancelled.clone().cancelled_owned()),
        finished: finished.clone(),
        _held: Arc::clone(&held),
    };
    let completion = complete(outcome_receiver, cancelled.clone(), finished, held);
    let handle = AgentRunHandle { events: Box::pin(events), completion: Box::pin(completion) };
    let cancel = AgentCancelHandle { cancelled: cancelled.clone() };
    (RunEnd { events: sender, outcome, cancelled, abandoned }, AgentRunControl { handle, cancel })
}

/// Owned by both halves of the handle; gone with the second.
struct Held {
    abandoned: CancellationToken,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.abandoned.cancel();
    }
}

async fn complete(
    outcome: oneshot::Receiver<Result<AgentCompletion, AgentError>>,
    cancelled: CancellationToken,
    finished: CancellationToken,
    _held: Arc<Held>,
) -> Result<AgentCompletion, AgentError> {
    let outcome = outcome.await.unwrap_or_else(|_| {
        Err(AgentError::backend(FailureClass::Crashed, "completion channel dropped"))
    });
    // A cancelled stream is final without being polled: it can only answer that it has ended.
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        () = finished.cancelled() => {}
    }
    if !cancelled.is_cancelled() {
        return outcome;
    }
    match outcome {
        // That something may still be running outweighs that this was wanted.
        Err(error) if error.class() == Some(FailureClass::Unterminated) => Err(error),
        Err(AgentError::Backend { exit, .. }) => Err(cancelled_error(exit)),
        Err(_) => Err(cancelled_error(None)),
        Ok(completion) => Err(cancelled_error(Some(completion.exit()))),
    }
}

pub(crate) fn cancelled_error(exit: Option<Exit>) -> AgentError {
    AgentError::Backend { message: "cancelled".into(), class: FailureClass::Cancelled, exit }
}

/// The consumer's end of the events. Says when it has ended, by `None` or by being dropped.
struct Events {
    receiver: Option<mpsc::Receiver<AgentEvent>>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    finished: CancellationToken,
    _held: Arc<Held>,
}

impl Stream for Events {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        let Some(mut receiver) = self.receiver.take() else {
            return Poll::Ready(None);
        };
        // Asked first, so that nothing is delivered after a cancel that has returned.
        if self.cancelled.as_mut().poll(context).is_pending() {
            match receiver.poll_recv(context) {
                Poll::Ready(None) => {}
                other => {
                    self.receiver = Some(receiver);
                    return other;
                }
            }
        }
        self.finished.cancel();
        Poll::Ready(None)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.finished.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::kind::AgentKind;

    fn completed() -> Result<AgentCompletion, AgentError> {
        Ok(AgentCompletion { status: ExitStatus::from_raw(0), final_text: None, data: None })
    }

    /// A run with one unread event whose process has exited well.
    fn exited() -> AgentRunControl {
        let (end, control) = run_ends();
        let event = AgentEvent::status(&AgentKind::known("codex"), "unread");
        end.events.try_send(event).unwrap();
        end.outcome.send(completed()).unwrap();
        control
    }

    fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()))
    }

    fn next(events: &mut AgentEvents) -> Poll<Option<AgentEvent>> {
        events.as_mut().poll_next(&mut Context::from_waker(std::task::Waker::noop()))
    }

    // T31
    #[test]
    fn the_completion_waits_for_the_last_none() {
        let mut handle = exited().handle;
        assert!(poll(&mut handle.completion).is_pending());
        assert!(matches!(next(&mut handle.events), Poll::Ready(Some(_))));
        assert!(poll(&mut handle.completion).is_pending());
        assert_eq!(next(&mut handle.events), Poll::Ready(None));
        assert_eq!(poll(&mut handle.completion), Poll::Ready(completed()));
    }

    // T32
    #[test]
    fn dropped_events_are_waited_for_no_more() {
        let AgentRunHandle { events, mut completion } = exited().handle;
        drop(events);
        assert_eq!(poll(&mut completion), Poll::Ready(completed()));
        // The exit is.
        let (_end, control) = run_ends();
        let AgentRunHandle { events, mut completion } = control.handle;
        drop(events);
        assert!(poll(&mut completion).is_pending());
    }

    // T40, T43
    #[test]
    fn a_cancelled_stream_is_over_without_anybody_looking() {
        let AgentRunControl { mut handle, cancel } = exited();
        cancel.cancel();
        let Poll::Ready(Err(error)) = poll(&mut handle.completion) else { panic!("pending") };
        assert_eq!(error.class(), Some(FailureClass::Cancelled));
        assert_eq!(next(&mut handle.events), Poll::Ready(None));
        assert_eq!(next(&mut handle.events), Poll::Ready(None));
    }

    // T47
    #[test]
    fn a_run_is_abandoned_with_the_second_half_of_its_handle() {
        let (end, control) = run_ends();
        drop(control.handle.completion);
        assert!(!end.abandoned.is_cancelled());
        drop(control.handle.events);
        assert!(end.abandoned.is_cancelled());
    }

    // T33
    #[test]
    fn a_run_whose_task_is_gone_is_an_error() {
        let (end, mut control) = run_ends();
        drop(end);
        assert_eq!(next(&mut control.handle.events), Poll::Ready(None));
        let Poll::Ready(Err(error)) = poll(&mut control.handle.completion) else { panic!() };
        assert_eq!(error.to_string(), "completion channel dropped");
    }
}
