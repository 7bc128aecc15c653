//! `callboard agents list`: the inventory as a table.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::AgentInventoryEntry;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard agents list --json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.list(&Kind::AGENT, &[]).await?;
    let unverified = if args.host.json { None } else { client.unverified_packs().await };
    let headers = ["id", "version", "verified", "model", "label", "degraded"];
    Listing::new("agents", headers, "no agents")
        .remedy("`callboard packs install PATH` installs some")
        .show(found, args.host.json, |agent: AgentInventoryEntry| {
            let pack = format!("{} {}", agent.pack_name, agent.pack_version);
            let verified = unverified.as_ref().map(|unverified| !unverified.contains(&pack));
            [
                Cell::new(agent.agent_id),
                Cell::new(agent.pack_version),
                verified.map_or_else(|| Cell::new(""), words::verified_cell),
                Cell::new(agent.model_class.as_str()),
                Cell::new(words::plain(&agent.label)),
                Cell::new(agent.degraded.join(", ")),
            ]
        })
}
