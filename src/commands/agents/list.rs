//! `callboard agents list`: the inventory as a table.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::AgentInventoryEntry;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard agents list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = Client::new(&args.connection.or(earlier))?.agents().await?;
    Listing::new("agents", ["id", "version", "model", "label", "degraded"], "no agents")
        .remedy("`callboard packs install PATH` brings some")
        .show(found, args.json, |agent: AgentInventoryEntry| {
            [
                Cell::new(agent.agent_id),
                Cell::new(agent.pack_version),
                Cell::new(agent.model_class.as_str()),
                Cell::new(words::plain(&agent.label)),
                Cell::new(agent.degraded.join(", ")),
            ]
        })
}
