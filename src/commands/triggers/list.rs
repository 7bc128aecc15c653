//! `callboard triggers list`: the subscriptions, without their secrets.

use clap::Args;
use comfy_table::{Cell, Color};
use serde::Deserialize;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers list --json")]
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
    subscription_id: String,
    source: String,
    state: String,
    workflow_id: String,
    roster_id: Option<String>,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = Client::new(&args.connection.or(earlier))?.subscriptions().await?;
    Listing::new(
        "subscriptions",
        ["id", "source", "state", "workflow", "for"],
        "no trigger subscriptions",
    )
    .remedy("`callboard triggers add` makes one")
    .show(found, args.json, |line: Line| {
        let state = Cell::new(&line.state);
        let state = match line.state.as_str() {
            "active" => state.fg(Color::Green),
            "paused" => state.fg(Color::Yellow),
            _ => state.fg(Color::Red),
        };
        [
            Cell::new(line.subscription_id),
            Cell::new(line.source),
            state,
            Cell::new(line.workflow_id),
            Cell::new(line.roster_id.unwrap_or_default()),
        ]
    })
}
