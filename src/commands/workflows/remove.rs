//! `callboard workflows remove`: no run begins with a definition any more.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows remove nightly-report

Runs that began with it go on and can be forked. What would start it later fails: its schedules,
triggers and heartbeats stay. A definition that the host loaded from a folder is not removed so.")]
pub(crate) struct RemoveArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    Client::new(&args.connection.or(earlier))?.remove_workflow(&args.workflow).await?;
    output::line(&format!("{} removed", args.workflow))?;
    Ok(Exit::Done)
}
