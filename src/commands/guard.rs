//! `callboard guard`: watches the host that started it, and ends the coding agents that it leaves running. A host that is
//! killed can end nothing, and one that is frozen does not know that others take its runs over. Not for people to type.

use std::io::{self, Read as _};
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;

use callboard_backends::CliAgents;

use crate::exit::{CommandError, Exit};

/// How often a host that has closed its pipe is looked at until it is gone.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// Where the host writes down the coding agents that it runs
    #[arg(long, value_name = "DIR")]
    records: PathBuf,
    /// How long the host may be silent, in milliseconds
    #[arg(long, value_name = "MS")]
    patience_ms: u64,
}

/// Returns when the host is gone and nothing of it runs any more.
pub(crate) fn run(args: &GuardArgs) -> Result<Exit, CommandError> {
    let patience = Duration::from_millis(args.patience_ms);
    let host = parent_id();
    // One sign of life waits while another is taken; more would say nothing new.
    let (alive, signs) = sync_channel(1);
    std::thread::spawn(move || listen(&alive));
    loop {
        match signs.recv_timeout(patience) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => end(CliAgents::end_of(args.records.clone(), host))?,
            Err(RecvTimeoutError::Disconnected) => return clean_up(args, patience),
        }
    }
}

/// Passes the host's signs of life on until it closes the pipe, which it also does by dying.
fn listen(alive: &SyncSender<()>) {
    let mut buffer = [0; 64];
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return,
            // A full channel holds a sign already.
            Ok(_) => drop(alive.try_send(())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// The pipe is closed a moment before the host's process is gone.
fn clean_up(args: &GuardArgs, patience: Duration) -> Result<Exit, CommandError> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        end(CliAgents::clean_up(args.records.clone()))?;
        std::thread::park_timeout(LOOK);
        if std::fs::read_dir(&args.records).map_or(true, |mut left| left.next().is_none()) {
            break;
        }
    }
    Ok(Exit::Done)
}

fn end(ended: io::Result<usize>) -> Result<(), CommandError> {
    ended
        .map(drop)
        .map_err(|error| CommandError::failed(format!("coding agents are left: {error}")))
}
