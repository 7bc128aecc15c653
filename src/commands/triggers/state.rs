//! `callboard triggers pause` with its counterpart: whether a subscription takes anything.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers pause tsub_0199f2c4")]
pub(crate) struct PauseArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers resume tsub_0199f2c4")]
pub(crate) struct ResumeArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    Client::new(&args.connection.or(earlier))?.set_subscription(&args.id, "paused").await?;
    output::line(&format!("{} paused", args.id))?;
    Ok(Exit::Done)
}

pub(super) async fn resume(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    Client::new(&args.connection.or(earlier))?.set_subscription(&args.id, "active").await?;
    output::line(&format!("{} resumed", args.id))?;
    Ok(Exit::Done)
}
