//! `callboard db`: the database of a host itself, without asking a host.

mod backup;
mod copy;
mod migrate;
mod prune;
mod restore;
mod series;
mod stats;
mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::Config;
use crate::exit::{CommandError, Exit};
use crate::settings::Lookup;

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
    /// Show where the bytes of a data folder are, and how much room is left
    Stats(stats::StatsArgs),
    /// Write the database and the files of runs to one archive, also while a host serves
    Backup(backup::BackupArgs),
    /// Make a data folder from an archive
    Restore(restore::RestoreArgs),
    /// Remove runs whose time is over by the rules of retention, or show which those are
    Prune(prune::PruneArgs),
    /// Bring the schema to this version's
    Migrate(migrate::MigrateArgs),
    /// Copy everything to an empty database: a folder to PostgreSQL, or back
    Copy(copy::CopyArgs),
}

pub(crate) async fn run(args: DbArgs) -> Result<Exit, CommandError> {
    match args.command {
        DbCommand::Status(args) => status::run(args).await,
        DbCommand::Stats(args) => stats::run(&args),
        DbCommand::Backup(args) => backup::run(&args),
        DbCommand::Restore(args) => restore::run(&args),
        DbCommand::Prune(args) => prune::run(args).await,
        DbCommand::Migrate(args) => migrate::run(args).await,
        DbCommand::Copy(args) => Box::pin(copy::run(args)).await,
    }
}

/// Which database is meant: the same words as for `serve`.
#[derive(Debug, Args)]
struct DatabaseArgs {
    /// Data folder of the host [env: CALLBOARD_DATA] [default: ./callboard-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// PostgreSQL database that several hosts share; better in the environment, which other users cannot see [env:
    /// CALLBOARD_DATABASE_URL, or DATABASE_URL] [default: sqlite, the one in the data folder]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Configuration file, which may name both [default: ./callboard.toml if it is there]
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
}

/// A database that was named.
#[derive(Debug)]
enum Place {
    Folder(PathBuf),
    Shared(String),
}

impl DatabaseArgs {
    fn place(&self) -> Result<Place, CommandError> {
        let config = Config::load(self.config.as_deref())?;
        let mut lookup = Lookup::new(&config);
        let folder = lookup.data(self.data.clone(), &config)?;
        let address = lookup.database_url(self.database_url.clone(), &config)?;
        Ok(address.map_or(Place::Folder(folder), Place::Shared))
    }

    /// The folder of this process, also where the database is a shared one.
    fn data_folder(&self) -> Result<PathBuf, CommandError> {
        let config = Config::load(self.config.as_deref())?;
        Lookup::new(&config).data(self.data.clone(), &config)
    }

    /// The folder, for what only the database in it can do; a shared one has tools of its own.
    fn folder(&self, instead: &str) -> Result<PathBuf, CommandError> {
        match self.place()? {
            Place::Folder(folder) => Ok(folder),
            Place::Shared(_) => Err(CommandError::usage(
                "this is for the database in a data folder, and a shared one is named",
            )
            .hint(format!("{instead}; --database-url sqlite means the one in the folder"))),
        }
    }
}
