//! `callboard db migrate`: the schema of a database brought to this version's, before hosts are started on it.

use clap::Args;

use callboard_store::{PostgresStore, SqliteStore, Status};

use super::{DatabaseArgs, Place};
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::wire::database::{unconnected, unopened};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db migrate --dry-run
  CALLBOARD_DATABASE_URL=postgres://owner@db/callboard callboard db migrate

A folder must not be in use, and its database is copied beside itself before. A start does the same by itself; this is for those
who want it apart, or whose hosts may not create tables.")]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: MigrateArgs) -> Result<Exit, CommandError> {
    let place = args.database.place()?;
    let status = match &place {
        Place::Folder(folder) => {
            SqliteStore::status(folder).map_err(|error| unopened(folder, &error))?
        }
        Place::Shared(url) => {
            PostgresStore::status(url).await.map_err(|error| unconnected(&error))?
        }
    };
    let Status { schema, known_schema, .. } = status;
    let found = schema.unwrap_or(0);
    if found > known_schema {
        return Err(CommandError::failed(format!(
            "the schema {found} is newer than this version's {known_schema}"
        ))
        .hint("use the version that the other hosts have"));
    }
    if found == known_schema {
        return output::done(&format!("the schema is {found} already"));
    }
    if args.dry_run {
        return output::done(&format!("would bring the schema from {found} to {known_schema}"));
    }
    match &place {
        Place::Folder(folder) if schema.is_none() => {
            let what = format!("there is no database in {}", folder.display());
            return Err(CommandError::failed(what).hint("`callboard serve` makes one"));
        }
        Place::Folder(folder) => {
            let store = SqliteStore::open(folder).map_err(|error| unopened(folder, &error))?;
            store.shutdown().await;
        }
        Place::Shared(url) => {
            PostgresStore::migrate(url).await.map_err(|error| unconnected(&error))?;
        }
    }
    output::done(&format!("brought the schema from {found} to {known_schema}"))
}
