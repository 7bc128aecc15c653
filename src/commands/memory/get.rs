//! `callboard memory get`: one entry as it stands.

use clap::Args;

use super::Entry;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard memory get mem_q83vEjRW --json")]
pub(crate) struct GetArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: GetArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.memory_entry(&args.id).await?;
    match args.json {
        true => output::json(&found)?,
        false => Entry::read(found)?.print()?,
    }
    Ok(Exit::Done)
}
