//! `callboard db status`: what is in a database, also while hosts serve from it.

use clap::Args;
use comfy_table::Cell;
use serde_json::{Map, Value, json};

use callboard_store::{PostgresStore, SqliteStore, Status};

use super::{DatabaseArgs, Place};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};
use crate::wire::database::{unconnected, unopened};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db status --data ./callboard-data
  callboard db status --json

Changes nothing, and needs neither a host nor its key.")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: StatusArgs) -> Result<Exit, CommandError> {
    let status = match args.database.place()? {
        Place::Folder(folder) => {
            SqliteStore::status(&folder).map_err(|error| unopened(&folder, &error))?
        }
        Place::Shared(url) => {
            PostgresStore::status(&url).await.map_err(|error| unconnected(&error))?
        }
    };
    if args.json { output::document(&document(&status)) } else { show(&status) }
}

fn document(status: &Status) -> Value {
    let counts = |counts: &[(String, u64)]| -> Map<String, Value> {
        counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect()
    };
    let tables: Map<String, Value> =
        status.tables.iter().map(|(name, rows)| ((*name).to_owned(), json!(rows))).collect();
    json!({
        "database": status.database,
        "schema": status.schema,
        "knownSchema": status.known_schema,
        "bytes": status.bytes,
        "tables": tables,
        "runs": counts(&status.runs),
        "records": counts(&status.records),
    })
}

fn show(status: &Status) -> Result<Exit, CommandError> {
    output::field("database", &words::plain(&status.database))?;
    output::field("schema", &schema(status))?;
    output::field("size", &format!("{:.1} MiB", status.bytes as f64 / f64::from(1 << 20)))?;
    for (name, counts) in [("runs", &status.runs), ("records", &status.records)] {
        let counts: Vec<String> =
            counts.iter().map(|(of, count)| format!("{count} {}", words::plain(of))).collect();
        if !counts.is_empty() {
            output::field(name, &counts.join(", "))?;
        }
    }
    if !status.tables.is_empty() {
        let rows = status.tables.iter().map(|(name, rows)| [Cell::new(name), Cell::new(rows)]);
        output::line("")?;
        output::table(["table", "rows"], rows.collect())?;
    }
    Ok(Exit::Done)
}

fn schema(status: &Status) -> String {
    let known = status.known_schema;
    match status.schema {
        None => "none yet; `callboard serve` makes it".to_owned(),
        Some(found) if found == known => format!("{found}, which is this version's"),
        Some(found) if found < known => format!("{found}; this version brings it to {known}"),
        Some(found) => format!("{found}, which is newer than this version's {known}"),
    }
}
