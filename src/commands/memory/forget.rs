//! `callboard memory forget`: erases an entry with all of its versions.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory forget mem_q83vEjRW

What is forgotten cannot be restored, and forks of old runs do not see it either.")]
pub(crate) struct ForgetArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ForgetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.forget_memory(&args.id).await?;
    output::line(&format!("{} forgotten", args.id))?;
    Ok(Exit::Done)
}
