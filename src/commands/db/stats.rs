//! `callboard db stats`: where the bytes of a data folder are, and how much room is left.

use std::fs;
use std::io;
use std::path::Path;

use clap::Args;
use comfy_table::Cell;
use serde_json::{Map, Value, json};

use callboard_store::{Sizes, SqliteStore};

use super::DatabaseArgs;
use crate::disk::{self, Room};
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::wire::database::unopened;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db stats --data /var/lib/callboard
  callboard db stats --json

Reads every page of the database once; works beside a host that serves. For a shared database use
`callboard db status`, and the tools of PostgreSQL.")]
pub(super) struct StatsArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &StatsArgs) -> Result<Exit, CommandError> {
    let data = args.database.folder("`callboard db status` counts what is in a shared one")?;
    let sizes = SqliteStore::sizes(&data).map_err(|error| unopened(&data, &error))?;
    let files = below(&data.join("workspaces"), 0).unwrap_or(0);
    let room = disk::room(&data);
    if args.json {
        return output::document(&document(&sizes, files, room));
    }
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let Sizes { database, log, free, tables } = &sizes;
    output::field("database", &format!("{}, of which {} are free", mib(*database), mib(*free)))?;
    output::field("log", &mib(*log))?;
    output::field("run files", &mib(files))?;
    if let Some(room) = room {
        output::field("disk", &format!("{} free of {}", mib(room.free), mib(room.total)))?;
    }
    output::line("")?;
    let rows = tables.iter().map(|(name, bytes)| [Cell::new(name), Cell::new(mib(*bytes))]);
    output::table(["table", "size"], rows.collect())?;
    Ok(Exit::Done)
}

fn document(sizes: &Sizes, files: u64, room: Option<Room>) -> Value {
    let tables: Map<String, Value> =
        sizes.tables.iter().map(|(name, bytes)| (name.clone(), json!(bytes))).collect();
    json!({
        "databaseBytes": sizes.database,
        "logBytes": sizes.log,
        "freeBytes": sizes.free,
        "runFileBytes": files,
        "diskFreeBytes": room.map(|room| room.free),
        "diskTotalBytes": room.map(|room| room.total),
        "tables": tables,
    })
}

/// The bytes of plain files below a folder.
fn below(folder: &Path, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < super::backup::DEEPEST {
            bytes += below(&entry.path(), depth + 1).unwrap_or(0);
        } else if kind.is_file() {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
