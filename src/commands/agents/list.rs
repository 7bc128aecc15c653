//! `callboard agents list`: the inventory as a table.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::AgentInventory;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::{output, words};

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
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.agents().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let inventory: AgentInventory = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    if inventory.agents.is_empty() {
        output::note("no agents");
        output::hint("`callboard packs install PATH` brings some");
        return Ok(Exit::Done);
    }
    let rows = inventory.agents.into_iter().map(|agent| {
        [
            Cell::new(agent.agent_id),
            Cell::new(agent.pack_version),
            Cell::new(agent.model_class.as_str()),
            Cell::new(words::plain(&agent.label)),
            Cell::new(agent.degraded.join(", ")),
        ]
    });
    output::table(["id", "version", "model", "label", "degraded"], rows.collect())?;
    Ok(Exit::Done)
}
