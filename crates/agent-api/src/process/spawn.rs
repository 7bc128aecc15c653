//! Starting one child in a group of its own.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::group::{Group, Signals};
use super::leftovers::{Leftovers, Record};
use crate::error::{AgentError, FailureClass};

/// What is started, with an environment that holds nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) working_dir: PathBuf,
}

/// Who looks after what is started.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) leftovers: Option<Leftovers>,
}

/// A running child. The group comes before the child, so that dropping this ends the group first.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) group: Group,
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
    pub(crate) record: Option<Record>,
}

pub(crate) fn spawn(command: &Command, keeper: &Keeper) -> Result<Spawned, AgentError> {
    let mut child = tokio::process::Command::new(&command.program)
        .args(&command.args)
        .env_clear()
        .envs(&command.environment)
        .current_dir(&command.working_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(&error))?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let (Some(id), Some(stdin), Some(stdout), Some(stderr)) =
        (id, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(AgentError::backend(FailureClass::Spawn, "the program was not started"));
    };
    let group = Group::new(id, Arc::clone(&keeper.signals));
    // A run that would be forgotten in a crash is not begun: the group ends with this function.
    let record = match &keeper.leftovers {
        Some(leftovers) => leftovers.record(id).map_err(|_| {
            AgentError::backend(FailureClass::Spawn, "the process could not be recorded")
        })?,
        None => None,
    };
    Ok(Spawned { group, child, stdin, stdout, stderr, record })
}

/// Says what kind of thing went wrong, without the path.
pub(crate) fn failed(error: &io::Error) -> AgentError {
    let message = match error.kind() {
        io::ErrorKind::NotFound => "the program or its folder was not found",
        io::ErrorKind::PermissionDenied => "the program may not be executed",
        io::ErrorKind::ArgumentListTooLong => "the arguments are too long",
        _ => "the program could not be started",
    };
    AgentError::backend(FailureClass::Spawn, message)
}
