//! `callboard packs list`: the packs that a tenant can use.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard packs list --json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    version: String,
    scope: String,
    verified: bool,
    signed_by: Option<String>,
    agents: Vec<serde_json::Value>,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::PACK, &[]).await?;
    Listing::new("packs", ["name", "version", "for", "verified", "signed by", "agents"], "no packs")
        .remedy("`callboard packs install PATH` installs one")
        .show(found, args.host.json, |pack: Listed| {
            [
                Cell::new(pack.name),
                Cell::new(pack.version),
                Cell::new(pack.scope),
                words::verified_cell(pack.verified),
                Cell::new(pack.signed_by.unwrap_or_else(|| "none".to_owned())),
                Cell::new(pack.agents.len()),
            ]
        })
}
