//! A process group: the agent with everything that it started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// What can be sent to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// Ask it to end.
    Ask,
    /// End it.
    Force,
}

/// The two things that we do to groups; a port, so that a group that will not die can be tested.
pub(crate) trait Signals: fmt::Debug + Send + Sync {
    fn push(&self, group: i32, push: Push);
    fn is_alive(&self, group: i32) -> bool;
}

/// The kernel.
#[derive(Debug)]
pub(crate) struct Kernel;

impl Signals for Kernel {
    fn push(&self, group: i32, push: Push) {
        let signal = match push {
            Push::Ask => Signal::TERM,
            Push::Force => Signal::KILL,
        };
        if let Some(group) = Pid::from_raw(group) {
            // Only two things can go wrong: it has exited, or it changed its user. The wait that follows shows which.
            let _ = kill_process_group(group, signal);
        }
    }

    fn is_alive(&self, group: i32) -> bool {
        Pid::from_raw(group).is_some_and(|group| test_kill_process_group(group).is_ok())
    }
}

/// A group that is ended when this is dropped, unless it has ended before.
#[derive(Debug)]
pub(crate) struct Group {
    id: i32,
    signals: Arc<dyn Signals>,
    is_over: bool,
}

/// How often a dying group is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long the rest of a group may take to exit after it was killed: only the kernel's own work is left.
const REST: Duration = Duration::from_secs(1);

impl Group {
    pub(crate) fn new(id: i32, signals: Arc<dyn Signals>) -> Self {
        Self { id, signals, is_over: false }
    }

    pub(crate) fn push(&self, push: Push) {
        if !self.is_over {
            self.signals.push(self.id, push);
        }
    }

    /// Ends whatever is left once the leader has been reaped. Its number is free when the group is empty,
    /// so nothing is sent after that.
    pub(crate) async fn end_rest(&mut self) {
        if self.is_over {
            return;
        }
        if self.signals.is_alive(self.id) {
            self.signals.push(self.id, Push::Force);
            let gone = async {
                while self.signals.is_alive(self.id) {
                    tokio::time::sleep(LOOK).await;
                }
            };
            // A zombie process that is not reaped still counts as alive; it does no harm.
            let _ = tokio::time::timeout(REST, gone).await;
        }
        self.is_over = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.push(Push::Force);
    }
}
