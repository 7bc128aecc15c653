//! `callboard schedules remove`: forgets a schedule.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules remove sched_0199f2c4")]
pub(crate) struct RemoveArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.remove_schedule(&args.id).await?;
    output::line(&format!("{} removed", args.id))?;
    Ok(Exit::Done)
}
