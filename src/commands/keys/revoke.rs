//! `callboard keys revoke`: takes a key back at once.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys revoke key_0199f2c4")]
pub(crate) struct RevokeArgs {
    /// Id of the key
    #[arg(value_name = "KEY_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RevokeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.revoke_key(&args.id).await?;
    output::line(&format!("{} revoked", args.id))?;
    Ok(Exit::Done)
}
