//! `callboard heartbeats remove`: forgets a heartbeat.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard heartbeats remove hb_0199f2c4")]
pub(crate) struct RemoveArgs {
    /// Id of the heartbeat
    #[arg(value_name = "HEARTBEAT_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.remove_heartbeat(&args.id).await?;
    output::line(&format!("{} removed", args.id))?;
    Ok(Exit::Done)
}
