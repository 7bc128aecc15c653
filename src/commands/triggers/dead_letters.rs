//! `callboard triggers dead-letters`: what could not become a run.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers dead-letters tsub_0199f2c4 --limit 10")]
pub(crate) struct DeadLettersArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Where the last page ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    attempt_event_id: String,
    reason: String,
    dead_lettered_at: Timestamp,
}

pub(super) async fn run(args: DeadLettersArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let query = given([("limit", Some(args.limit.to_string())), ("cursor", args.cursor)]);
    let found = client.trigger_dead_letters(&args.id, &query).await?;
    Listing::new("deliveries", ["id", "reason", "when"], "no dead letters in the last 30 days")
        .next("`callboard triggers replay ID DELIVERY` starts a run of one")
        .show(found, args.json, |line: Line| {
            let when = words::moment(line.dead_lettered_at);
            [Cell::new(line.attempt_event_id), Cell::new(line.reason), Cell::new(when)]
        })
}
