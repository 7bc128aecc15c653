//! `callboard memory history`: every version of an entry, and who wrote it.

use clap::Args;
use comfy_table::Cell;

use super::Entry;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

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

pub(super) async fn run(args: HistoryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = Client::new(&args.connection.or(earlier))?.memory_history(&args.id).await?;
    Listing::new("versions", ["version", "written", "by", "content"], "no versions").show(
        found,
        args.json,
        |entry: Entry| {
            [
                Cell::new(entry.version),
                Cell::new(words::moment(entry.written_at)),
                Cell::new(entry.author()),
                Cell::new(words::preview(&entry.content.clone().into())),
            ]
        },
    )
}
