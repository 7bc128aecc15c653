//! `callboard secrets list`: the secrets of this tenant, without their values.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::{output, words};

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
struct SecretList {
    secrets: Vec<Secret>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.secrets().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let list: SecretList = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    if list.secrets.is_empty() {
        output::note("no secrets; `callboard secrets set NAME` stores one");
        return Ok(Exit::Done);
    }
    let rows = list.secrets.into_iter().map(|secret| {
        [
            Cell::new(words::plain(&secret.name)),
            Cell::new(secret.created_at),
            Cell::new(secret.updated_at),
        ]
    });
    output::table(["name", "created", "updated"], rows.collect())?;
    Ok(Exit::Done)
}
