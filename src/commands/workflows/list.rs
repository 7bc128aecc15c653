//! `callboard workflows list`: what this key can run.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    workflow_id: String,
    name: String,
    version: String,
    origin: String,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = Client::new(&args.connection.or(earlier))?.workflows().await?;
    Listing::new("workflows", ["id", "name", "version", "origin"], "no workflows")
        .remedy("`callboard workflows apply FILE` registers one")
        .show(found, args.json, |workflow: Listed| {
            [
                Cell::new(workflow.workflow_id),
                Cell::new(words::plain(&workflow.name)),
                Cell::new(workflow.version),
                Cell::new(workflow.origin),
            ]
        })
}
