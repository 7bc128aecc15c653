//! `callboard triggers remove`: nothing comes in over it any more.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers remove tsub_0199f2c4

Its address, its secret and its dead letters go too. The runs that it started stay.")]
pub(crate) struct RemoveArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    Client::new(&args.connection.or(earlier))?.remove_subscription(&args.id).await?;
    output::line(&format!("{} removed", args.id))?;
    Ok(Exit::Done)
}
