//! `callboard schedules run-now`: a run of a schedule beside its own times.

use clap::Args;

use super::list::text_of;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules run-now sched_0199f2c4")]
pub(crate) struct RunNowArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RunNowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let started = client.run_schedule(&args.id).await?;
    if args.json {
        output::json(&started)?;
    } else {
        output::line(&text_of(&started, "runId"))?;
    }
    Ok(Exit::Done)
}
