//! `callboard memory list`: newest first, a page at a time.

use clap::Args;
use comfy_table::Cell;

use super::Entry;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard memory list --text \"invoice Müller\"
  callboard memory list --scope agent/vendor.acme.desk.triager --tag source:run --json")]
pub(crate) struct ListArgs {
    /// Only entries of this scope or reference
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Only entries with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only entries in which all of these words occur
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Where the last page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.clone().or(earlier))?;
    let found = client.memory(&query(&args)).await?;
    let headers = ["entry", "version", "kept in", "written", "content"];
    Listing::new("entries", headers, "nothing is remembered").show(
        found,
        args.json,
        |entry: Entry| {
            [
                Cell::new(&entry.id),
                Cell::new(entry.version),
                Cell::new(entry.place()),
                Cell::new(words::moment(entry.written_at)),
                Cell::new(words::preview(&entry.content.clone().into())),
            ]
        },
    )
}

fn query(args: &ListArgs) -> Vec<(&'static str, String)> {
    given([
        ("scopeId", args.scope.clone()),
        ("tag", args.tag.clone()),
        ("text", args.text.clone()),
        ("limit", Some(args.limit.to_string())),
        ("cursor", args.cursor.clone()),
    ])
}
