//! `callboard db`: the database of a host itself, without asking a host.

mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::environment;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard db status
  CALLBOARD_DATABASE_URL=postgres://callboard@db/callboard callboard db status"
)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Show schema, size and what is in it
    Status(status::StatusArgs),
}

pub(crate) async fn run(args: DbArgs) -> Result<Exit, CommandError> {
    match args.command {
        DbCommand::Status(args) => status::run(args).await,
    }
}

/// Which database is meant: the same words as for `serve`.
#[derive(Debug, Args)]
struct DatabaseArgs {
    /// Data folder of the host
    #[arg(
        long,
        value_name = "DIR",
        env = "CALLBOARD_DATA",
        hide_env_values = true,
        default_value = "./callboard-data"
    )]
    data: PathBuf,
    /// PostgreSQL database that several hosts share; better in the environment, which other users cannot see [env:
    /// CALLBOARD_DATABASE_URL] [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
}

/// A database that was named.
#[derive(Debug)]
enum Place {
    Folder(PathBuf),
    Shared(String),
}

impl DatabaseArgs {
    fn place(&self) -> Place {
        match self.database_url.clone().or_else(|| environment("CALLBOARD_DATABASE_URL")) {
            Some(address) => Place::Shared(address),
            None => Place::Folder(self.data.clone()),
        }
    }
}
