//! `callboard roster list`: who is there.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::AgentRoster;

use super::{agent_of, workflows_of};
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roster list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.roster().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let list: AgentRoster = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    if list.roster.is_empty() {
        output::note("no members");
        output::hint("`callboard roster hire --persona NAME --agent AGENT` brings one");
        return Ok(Exit::Done);
    }
    let rows = list.roster.into_iter().map(|member| {
        [
            Cell::new(&member.roster_id),
            Cell::new(words::plain(&member.persona)),
            Cell::new(if member.enabled { "works" } else { "paused" }),
            Cell::new(agent_of(&member)),
            Cell::new(words::plain(&workflows_of(&member))),
        ]
    });
    output::table(["member", "persona", "state", "agent", "owns"], rows.collect())?;
    Ok(Exit::Done)
}
