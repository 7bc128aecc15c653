//! `callboard roster work add`: adds a work item.

use clap::Args;

use callboard_protocol::AddWork;

use super::super::Target;
use super::{explain, standing};
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::inputs::read_inputs;
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roster work add host:sally-1a2b3c4d \"The printer is on fire\" --input '{\"message\": \"Help!\"}'

Prints the item's id.")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    target: Target,
    /// What it is about, in one line
    #[arg(value_name = "TITLE")]
    title: String,
    /// Id of the workflow that does it; may be left out for a member that owns one
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// Inputs of its run: a JSON object, @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
}

pub(super) async fn run(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let (client, member) = args.target.reach(earlier).await?;
    let body = AddWork {
        inputs: args.input.as_deref().map(read_inputs).transpose()?.unwrap_or_default(),
        workflow_id: args.workflow.map(Into::into),
        title: args.title,
    };
    let item = client.add_work(&member, &body).await?;
    if args.target.host.json {
        output::json(&item)?;
        return Ok(Exit::Done);
    }
    output::line(item.work_id.as_str())?;
    output::note(&standing(&item));
    explain(&item);
    Ok(Exit::Done)
}
