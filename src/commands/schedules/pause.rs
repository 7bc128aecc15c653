//! `callboard schedules pause` with its counterpart: whether a schedule fires.

use clap::Args;
use serde_json::json;

use super::list::text_of;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules pause sched_0199f2c4")]
pub(crate) struct PauseArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules resume sched_0199f2c4

What came due during the pause is not caught up with.")]
pub(crate) struct ResumeArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.change_schedule(&args.id, &json!({ "enabled": false })).await?;
    output::line(&format!("{} paused", args.id))?;
    Ok(Exit::Done)
}

pub(super) async fn resume(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let resumed = client.change_schedule(&args.id, &json!({ "enabled": true })).await?;
    output::line(&format!("{} resumed", args.id))?;
    let next = text_of(&resumed, "nextFireAt");
    output::note(&if next.is_empty() {
        "it has nothing left to fire".to_owned()
    } else {
        format!("next at {next}")
    });
    Ok(Exit::Done)
}
