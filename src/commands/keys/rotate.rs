//! `callboard keys rotate`: a new key with the rights of an old one, which stops working.

use clap::Args;

use super::show_new;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys rotate key_0199f2c4 --json

The old key stops working at once. Where it is in use, make the new one with `callboard keys create`
first and revoke the old one later.")]
pub(crate) struct RotateArgs {
    /// Id of the key
    #[arg(value_name = "KEY_ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RotateArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    show_new(&client.rotate_key(&args.id).await?, args.json)
}
