//! `callboard heartbeats list`: what is looked at, with what the last look saw.

use clap::Args;
use comfy_table::{Cell, Color};
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard heartbeats list
  callboard heartbeats list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    workflow_id: String,
    url: String,
    interval_sec: u64,
    enabled: bool,
    last: Option<Look>,
    changed_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Look {
    status: String,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.heartbeats().await?;
    let headers = ["id", "workflow", "every", "last", "changed", "address"];
    Listing::new("heartbeats", headers, "no heartbeats")
        .remedy("`callboard heartbeats add` makes one")
        .show(found, args.json, |line: Line| {
            [
                Cell::new(&line.id),
                Cell::new(words::plain(&line.workflow_id)),
                every(&line),
                last(line.last.as_ref()),
                Cell::new(line.changed_at.map_or("-".to_owned(), words::moment)),
                Cell::new(words::plain(&line.url)),
            ]
        })
}

fn every(line: &Line) -> Cell {
    match line.enabled {
        true => Cell::new(format!("{}s", line.interval_sec)),
        false => Cell::new("paused").fg(Color::Yellow),
    }
}

fn last(look: Option<&Look>) -> Cell {
    match look.map(|look| look.status.as_str()) {
        None => Cell::new("-"),
        Some("ok") => Cell::new("ok"),
        Some(trouble) => Cell::new(words::plain(trouble)).fg(Color::Red),
    }
}
