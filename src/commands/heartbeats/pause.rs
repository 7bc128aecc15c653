//! `callboard heartbeats pause` with its counterpart: whether anything is looked at.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard heartbeats pause hb_0199f2c4")]
pub(crate) struct PauseArgs {
    /// Id of the heartbeat
    #[arg(value_name = "HEARTBEAT_ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard heartbeats resume hb_0199f2c4

What changed during the pause is seen by the next look.")]
pub(crate) struct ResumeArgs {
    /// Id of the heartbeat
    #[arg(value_name = "HEARTBEAT_ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let changed = client.enable_heartbeat(&args.id, false).await?;
    match args.json {
        true => output::json(&changed)?,
        false => output::line(&format!("{} paused", args.id))?,
    }
    Ok(Exit::Done)
}

pub(super) async fn resume(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let changed = client.enable_heartbeat(&args.id, true).await?;
    match args.json {
        true => output::json(&changed)?,
        false => output::line(&format!("{} resumed", args.id))?,
    }
    Ok(Exit::Done)
}
