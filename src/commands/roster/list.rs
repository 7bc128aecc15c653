//! `callboard roster list`: the members.

use clap::Args;
use comfy_table::Cell;

use callboard_protocol::AgentRosterEntry;

use super::{agent_of, workflows_of};
use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roster list --json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::MEMBER, &[]).await?;
    Listing::new("roster", ["member", "persona", "state", "agent", "owns"], "no members")
        .remedy("`callboard roster hire --persona NAME --agent AGENT` hires one")
        .show(found, args.host.json, |member: AgentRosterEntry| {
            [
                Cell::new(&member.roster_id),
                Cell::new(words::plain(&member.persona)),
                Cell::new(if member.enabled { "works" } else { "paused" }),
                Cell::new(agent_of(&member)),
                Cell::new(words::plain(&workflows_of(&member))),
            ]
        })
}
