//! `callboard keys list`: the keys of this tenant, without their texts.

use clap::Args;
use comfy_table::{Cell, Color};
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::{output, words};

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
struct KeyList {
    keys: Vec<Key>,
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
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.keys().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let list: KeyList = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    let rows = list.keys.into_iter().map(|key| {
        [
            Cell::new(&key.id),
            Cell::new(words::plain(&key.name)),
            state(&key),
            Cell::new(key.scopes.map_or_else(|| "all".to_owned(), |scopes| scopes.join(" "))),
        ]
    });
    output::table(["id", "name", "state", "scopes"], rows.collect())?;
    Ok(Exit::Done)
}

fn state(key: &Key) -> Cell {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => Cell::new("revoked").fg(Color::Red),
        (None, Some(at)) if at <= words::now() => Cell::new("expired").fg(Color::Red),
        (None, Some(at)) => Cell::new(format!("until {at}")),
        (None, None) => Cell::new("valid").fg(Color::Green),
    }
}
