//! `callboard console`: a link that opens the console in a browser, signed in as whoever holds the key.

use clap::Args;
use serde_json::json;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard console
  xdg-open \"$(callboard console)\"

The link works once, for ten minutes. Whoever opens it may do in the browser what the
key may do.")]
pub(crate) struct ConsoleArgs {
    #[command(flatten)]
    connection: Connection,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: ConsoleArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let link = client.console_link().await?;
    match args.json {
        true => output::json(&json!({ "url": link }))?,
        false => output::line(&link)?,
    }
    Ok(Exit::Done)
}
