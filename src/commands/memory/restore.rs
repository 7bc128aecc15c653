//! `callboard memory restore`: an old version's content, written anew.

use clap::Args;
use serde_json::json;

use super::Entry;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard memory restore mem_q83vEjRW --version 1
  callboard memory restore mem_q83vEjRW --version 1 --expected 3")]
pub(crate) struct RestoreArgs {
    /// Id of the entry
    #[arg(value_name = "ENTRY")]
    id: String,
    /// The version whose content comes back
    #[arg(long, value_name = "N")]
    version: u64,
    /// Refuse if another version than this is the current one
    #[arg(long, value_name = "N")]
    expected: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RestoreArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let mut body = json!({ "version": args.version });
    if let Some(expected) = args.expected {
        body["expectedVersion"] = expected.into();
    }
    let restored = client.restore_memory(&args.id, &body).await?;
    if args.json {
        output::json(&restored)?;
        return Ok(Exit::Done);
    }
    let entry = Entry::read(restored)?;
    let (id, version) = (&entry.id, entry.version);
    output::line(&format!(
        "{id} is back as it was in version {}; now version {version}",
        args.version
    ))?;
    Ok(Exit::Done)
}
