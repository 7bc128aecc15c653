//! `callboard secrets remove`: forgets a secret.

use clap::Args;
use serde_json::json;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard secrets remove openai

Runs that need it fail from now on with credential_not_found.")]
pub(crate) struct RemoveArgs {
    /// Name of the secret
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.remove_secret(&args.name).await?;
    if args.json {
        output::json(&json!({ "removed": args.name }))?;
    } else {
        output::line(&format!("{} removed", args.name))?;
    }
    Ok(Exit::Done)
}
