//! `callboard agents`: who can be put to work.

mod list;
mod show;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard agents list
  callboard agents show community.callboard.starter.triager

Agents come in packs: see `callboard packs`."
)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List the agents that this key can see
    List(list::ListArgs),
    /// Show one agent: its pack, its tools, what it goes without here
    Show(show::ShowArgs),
}

pub(crate) async fn run(args: AgentsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        AgentsCommand::List(args) => list::run(args, earlier).await,
        AgentsCommand::Show(args) => show::run(args, earlier).await,
    }
}
