//! `callboard keys list`: the keys of this tenant, without their texts.

use clap::Args;
use comfy_table::{Cell, Color};
use serde::Deserialize;

use callboard_engine::{Clock, SystemClock};
use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    id: String,
    name: String,
    scopes: Option<Vec<String>>,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = Client::new(&args.connection.or(earlier))?.keys().await?;
    Listing::new("keys", ["id", "name", "state", "scopes"], "no keys")
        .remedy("`callboard keys create --name NAME` makes one")
        .show(found, args.json, |key: Key| {
            let state = state(&key);
            let scopes = key.scopes.map_or_else(|| "all".to_owned(), |scopes| scopes.join(" "));
            [Cell::new(key.id), Cell::new(words::plain(&key.name)), state, Cell::new(scopes)]
        })
}

fn state(key: &Key) -> Cell {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => Cell::new("revoked").fg(Color::Red),
        (None, Some(at)) if at <= SystemClock.now() => Cell::new("expired").fg(Color::Red),
        (None, Some(at)) => Cell::new(format!("until {at}")),
        (None, None) => Cell::new("valid").fg(Color::Green),
    }
}
