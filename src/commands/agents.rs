//! `callboard agents`: installed agents.

mod deploy;
mod kinds;
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
  callboard agents kinds
  callboard agents deploy promote vendor.acme.desk.assistant@1.1.0 --channel stable

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
    /// Show one agent: its pack, its tools, and capabilities that this host lacks
    Show(show::ShowArgs),
    /// Compare the coding agents that can be used as models: Claude Code, Codex and others
    Kinds(kinds::KindsArgs),
    /// Change which version of an agent serves: promote, canary, pause, roll back
    Deploy(deploy::DeployArgs),
}

pub(crate) async fn run(args: AgentsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        AgentsCommand::List(args) => list::run(args, earlier).await,
        AgentsCommand::Show(args) => show::run(args, earlier).await,
        AgentsCommand::Kinds(args) => kinds::run(&args),
        AgentsCommand::Deploy(args) => deploy::run(args, earlier).await,
    }
}
