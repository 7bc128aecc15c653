//! `callboard memory history`: every version of an entry, and who wrote it.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use super::{Entry, unreadable};
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory history mem_q83vEjRW")]
pub(crate) struct HistoryArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
struct History {
    versions: Vec<Entry>,
}

pub(super) async fn run(args: HistoryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.memory_history(&args.id).await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let history: History = serde_json::from_value(found).map_err(|error| unreadable(&error))?;
    let rows = history.versions.into_iter().map(|entry| {
        [
            Cell::new(entry.version),
            Cell::new(words::moment(entry.written_at)),
            Cell::new(entry.author()),
            Cell::new(words::plain(&words::preview(&entry.content.clone().into()))),
        ]
    });
    output::table(["version", "written", "by", "content"], rows.collect())?;
    Ok(Exit::Done)
}
