//! `callboard mcp`: a host's members, agents and workflows for a client that starts its servers as programs.

use std::sync::Arc;

use clap::Args;
use secrecy::SecretString;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::process::{LogFormat, start_logging};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard mcp
  claude mcp add callboard -- callboard mcp
  claude mcp add --transport http callboard http://127.0.0.1:8787/mcp --header \"Authorization: Bearer $CALLBOARD_API_KEY\"

It speaks the Model Context Protocol on standard input and output until the client goes,
for the host at CALLBOARD_URL and with the key in CALLBOARD_API_KEY. What the key may not
do cannot be done here. Hosts serve the same at /mcp.")]
pub(crate) struct McpArgs {
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: McpArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    start_logging("warn", LogFormat::Text)?;
    let connection = args.connection.or(earlier);
    let client = Client::new(&connection)?;
    // A wrong address or key is better said here than in every answer.
    client.whoami().await?;
    let key = connection.api_key().map(|key| SecretString::from(key.expose().to_owned()));
    let base = client.base().to_owned();
    callboard_doors::serve_stdio(Arc::new(client), key.unwrap_or_default(), base)
        .await
        .map_err(CommandError::failed)?;
    Ok(Exit::Done)
}
