//! `callboard inbox`: open questions of runs.

mod answer;
mod list;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard inbox list
  callboard inbox answer run_0199f2c4 --action accept

Both need a key with the scope approvals:respond."
)]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    command: InboxCommand,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    /// List open questions, longest waiting first
    List(list::ListArgs),
    /// Answer a question
    Answer(answer::AnswerArgs),
}

pub(crate) async fn run(args: InboxArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        InboxCommand::List(args) => list::run(args, earlier).await,
        InboxCommand::Answer(args) => answer::run(args, earlier).await,
    }
}
