//! `callboard keys rotate-links`: a new secret for links to interrupts.

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys rotate-links

Links that are out keep working until they expire, half an hour at the longest. To end
them at once, as after a leak, rotate twice.")]
pub(crate) struct RotateLinksArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RotateLinksArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let rotated = client.rotate_links().await?;
    if args.json {
        output::json(&rotated)?;
    } else {
        let generation = rotated.get("generation").and_then(Value::as_u64).unwrap_or_default();
        output::line(&format!("links are signed with secret {generation} from now on"))?;
    }
    Ok(Exit::Done)
}
