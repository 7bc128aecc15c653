//! `callboard roster pause` with its opposite: whether a member's workflows may fire.

use clap::Args;
use serde_json::json;

use callboard_protocol::AgentRosterEntry;

use super::Target;
use crate::args::Connection;
use crate::client::Kind;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roster pause host:sally-1a2b3c4d
  callboard roster resume host:sally-1a2b3c4d

A paused member stays on the roster. Nothing starts its workflows; active runs continue, and a
person can still run its agent.")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    target: Target,
}

pub(super) async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let change = json!({ "enabled": false });
    let (client, id) = args.target.reach(earlier).await?;
    let member: AgentRosterEntry = client.change(&Kind::MEMBER, &id, &change).await?;
    args.target.tell(&member, "is paused")
}

pub(super) async fn resume(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let change = json!({ "enabled": true });
    let (client, id) = args.target.reach(earlier).await?;
    let member: AgentRosterEntry = client.change(&Kind::MEMBER, &id, &change).await?;
    args.target.tell(&member, "works")
}
