//! `callboard roster work`: a member's queue.

mod add;
mod list;

use clap::{Args, Subcommand};

use callboard_protocol::{MoveWork, WorkItem, WorkState};

use super::Target;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard roster work add host:sally-1a2b3c4d \"The printer is on fire\" --input '{\"message\": \"Help!\"}'
  callboard roster work list host:sally-1a2b3c4d
  callboard roster work done host:sally-1a2b3c4d work_01

An item starts its workflow at once; while the member is paused it waits, and starts
once the member is resumed."
)]
pub(crate) struct WorkArgs {
    #[command(subcommand)]
    command: WorkCommand,
}

#[derive(Debug, Subcommand)]
enum WorkCommand {
    /// Give a member a work item
    Add(add::AddArgs),
    /// List a member's work, oldest first
    List(list::ListArgs),
    /// Take an item over from the member
    Claim(MoveArgs),
    /// Mark an item as done
    Done(MoveArgs),
    /// Move an item back to the front of the queue, where it starts again
    Back(MoveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roster work claim host:sally-1a2b3c4d work_01
  callboard roster work done host:sally-1a2b3c4d work_01
  callboard roster work back host:sally-1a2b3c4d work_01 --json")]
struct MoveArgs {
    #[command(flatten)]
    target: Target,
    /// Id of the item
    #[arg(value_name = "WORK")]
    work: String,
}

pub(super) async fn run(args: WorkArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        WorkCommand::Add(args) => add::run(args, earlier).await,
        WorkCommand::List(args) => list::run(args, earlier).await,
        WorkCommand::Claim(args) => move_to(args, WorkState::Doing, earlier).await,
        WorkCommand::Done(args) => move_to(args, WorkState::Done, earlier).await,
        WorkCommand::Back(args) => move_to(args, WorkState::Todo, earlier).await,
    }
}

async fn move_to(
    args: MoveArgs,
    state: WorkState,
    earlier: &Connection,
) -> Result<Exit, CommandError> {
    let (client, member) = args.target.reach(earlier).await?;
    let moved = client.move_work(&member, &args.work, &MoveWork { state }).await?;
    tell(&moved, args.target.host.json)
}

/// How an item stands after what was asked.
fn tell(item: &WorkItem, as_json: bool) -> Result<Exit, CommandError> {
    if as_json {
        output::json(item)?;
        return Ok(Exit::Done);
    }
    output::line(&standing(item))?;
    explain(item);
    Ok(Exit::Done)
}

fn standing(item: &WorkItem) -> String {
    let run = item.run_id.as_ref().map(|run| format!(", run {run}")).unwrap_or_default();
    format!("{} is {}{run}", item.work_id, said(item.state))
}

/// What keeps an item from being begun.
fn explain(item: &WorkItem) {
    if let Some(reason) = item.reason.as_ref().filter(|_| item.state == WorkState::Todo) {
        output::hint(&format!("{reason}; it starts once that has changed"));
    }
}

fn said(state: WorkState) -> &'static str {
    match state {
        WorkState::Todo => "to do",
        WorkState::Doing => "begun",
        WorkState::Done => "done",
    }
}

fn title(item: &WorkItem) -> String {
    words::plain(&item.title)
}
