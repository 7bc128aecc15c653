//! `callboard secrets list`: the secrets of this tenant, without their values.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard secrets list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = Client::new(&args.connection.or(earlier))?.secrets().await?;
    Listing::new("secrets", ["name", "created", "updated"], "no secrets")
        .remedy("`callboard secrets set NAME` stores one")
        .show(found, args.json, |secret: Secret| {
            [
                Cell::new(words::plain(&secret.name)),
                Cell::new(secret.created_at),
                Cell::new(secret.updated_at),
            ]
        })
}
