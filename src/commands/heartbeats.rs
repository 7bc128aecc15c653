//! `callboard heartbeats`: addresses that are looked at until they change.

mod add;
mod list;
mod pause;
mod remove;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard heartbeats add triage-desk --watch https://status.example.com --every 300
  callboard heartbeats list
  callboard heartbeats pause hb_0199f2c4"
)]
pub(crate) struct HeartbeatsArgs {
    #[command(subcommand)]
    command: HeartbeatsCommand,
}

#[derive(Debug, Subcommand)]
enum HeartbeatsCommand {
    /// List heartbeats with what the last look saw
    List(list::ListArgs),
    /// Look at an address every so often, and run a workflow when it changes
    Add(add::AddArgs),
    /// Look no more for now
    Pause(pause::PauseArgs),
    /// Look again, from now on
    Resume(pause::ResumeArgs),
    /// Forget a heartbeat; its runs go on
    Remove(remove::RemoveArgs),
}

pub(crate) async fn run(args: HeartbeatsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        HeartbeatsCommand::List(args) => list::run(args, earlier).await,
        HeartbeatsCommand::Add(args) => add::run(args, earlier).await,
        HeartbeatsCommand::Pause(args) => pause::pause(args, earlier).await,
        HeartbeatsCommand::Resume(args) => pause::resume(args, earlier).await,
        HeartbeatsCommand::Remove(args) => remove::run(args, earlier).await,
    }
}
