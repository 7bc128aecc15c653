//! `callboard triggers dead-letters`: what could not become a run.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::listing::Listing;
use crate::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers dead-letters tsub_0199f2c4")]
pub(crate) struct DeadLettersArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
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
    let found = client.trigger_dead_letters(&args.id).await?;
    Listing::new("deliveries", ["id", "reason", "when"], "no dead letters in the last 30 days")
        .next("`callboard triggers replay ID DELIVERY` starts a run of one")
        .show(found, args.json, |line: Line| {
            let when = words::moment(line.dead_lettered_at);
            [Cell::new(line.attempt_event_id), Cell::new(line.reason), Cell::new(when)]
        })
}
