//! `callboard packs list`: the packs that a tenant can use.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard packs list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
struct PackList {
    packs: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    version: String,
    scope: String,
    signed_by: Option<String>,
    agents: Vec<serde_json::Value>,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.packs().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let list: PackList = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    if list.packs.is_empty() {
        output::note("no packs");
        output::hint("`callboard packs install PATH` installs one");
        return Ok(Exit::Done);
    }
    let rows = list.packs.into_iter().map(|pack| {
        [
            Cell::new(pack.name),
            Cell::new(pack.version),
            Cell::new(pack.scope),
            Cell::new(pack.signed_by.unwrap_or_else(|| "nobody".to_owned())),
            Cell::new(pack.agents.len()),
        ]
    });
    output::table(["name", "version", "for", "signed by", "agents"], rows.collect())?;
    Ok(Exit::Done)
}
