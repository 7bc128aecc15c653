//! `callboard keys whoami`: what the key that is set is and may.

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard keys whoami")]
pub(crate) struct WhoamiArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: WhoamiArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let who = Client::new(&args.connection.or(earlier))?.whoami().await?;
    if args.json {
        output::json(&who)?;
        return Ok(Exit::Done);
    }
    let part = |name: &str| words::plain(who.get(name).and_then(Value::as_str).unwrap_or_default());
    let scopes = who
        .get("scopes")
        .and_then(Value::as_array)
        .map(|scopes| scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    output::line(&format!("{} ({}), tenant {}", part("name"), part("keyId"), part("tenant")))?;
    output::line(&format!("may: {}", scopes.as_deref().unwrap_or("everything")))?;
    Ok(Exit::Done)
}
