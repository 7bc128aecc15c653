//! `callboard secrets`: what runs may use and nobody gets to see.

mod list;
mod remove;
mod set;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard secrets set openai
  callboard secrets set openai < key.txt
  callboard secrets list
  callboard secrets remove openai

All of them need a key with the scope admin. Values are sealed on the host's disk, go to the
calls of this tenant's runs, and never come back."
)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Store a secret under a name, or replace it
    Set(set::SetArgs),
    /// List the secrets of this tenant, without their values
    List(list::ListArgs),
    /// Forget a secret
    Remove(remove::RemoveArgs),
}

pub(crate) async fn run(args: SecretsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        SecretsCommand::Set(args) => set::run(args, earlier).await,
        SecretsCommand::List(args) => list::run(args, earlier).await,
        SecretsCommand::Remove(args) => remove::run(args, earlier).await,
    }
}
