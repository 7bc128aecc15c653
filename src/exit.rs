//! How a command ends: the exit codes that scripts rely on, and the two lines of an error.

use std::io;
use std::process::ExitCode;

/// What the shell learns. The numbers are a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// The run or the check failed.
    Failed = 1,
    /// What was typed or configured is wrong.
    Usage = 2,
    NotFound = 3,
    /// The host does not accept the key, or the key may not do this.
    Refused = 4,
    /// No host answers there.
    Unreachable = 5,
    /// Ctrl-C, as shells count it: 128 and the signal's number.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that could not do its work. Printed as `error: what` and `hint: what to do`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
    /// The host's name for what went wrong, where a host said so.
    pub(crate) code: Option<String>,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), hint: None, code: None }
    }

    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what)
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// The host's answer is not what it should be.
    pub(crate) fn unreadable(error: &serde_json::Error) -> Self {
        Self::failed(format!("the host's answer cannot be read: {error}"))
            .hint("`callboard doctor` says which version the host has; `callboard --version` ours")
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A host that restarts or is busy may be back soon; one that refuses will refuse again.
    pub(crate) fn is_passing(&self) -> bool {
        let code = self.code.as_deref();
        self.exit == Exit::Unreachable
            || matches!(code, Some("rate_limited" | "service_unavailable" | "internal_error"))
    }

    /// Whether the reader of our output went away, as in `callboard runs list | head -1`. Nothing is left to say then.
    pub(crate) fn is_silent(&self) -> bool {
        self.what.is_empty()
    }
}

impl From<io::Error> for CommandError {
    /// For writing to the terminal or pipe that we were given; other files name themselves in their errors.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Done, ""),
            _ => Self::failed(format!("cannot write output: {error}")),
        }
    }
}
