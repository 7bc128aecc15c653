//! `callboard triggers show`: one subscription, without its secret.

use clap::Args;
use serde_json::Value;

use super::add::with_addresses;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers show tsub_0199f2c4")]
pub(crate) struct ShowArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let mut found = client.subscription(&args.id).await?;
    with_addresses(&mut found, client.base());
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let part = |pointer: &str| found.pointer(pointer).and_then(Value::as_str);
    output::field("trigger", &args.id)?;
    for (name, pointer) in [
        ("source", "/source"),
        ("state", "/state"),
        ("workflow", "/workflowId"),
        ("for", "/rosterId"),
        ("verifies", "/verification"),
        ("secret", "/secretFingerprint"),
    ] {
        if let Some(value) = part(pointer) {
            output::field(name, value)?;
        }
    }
    for (_, address) in found["binding"].as_object().into_iter().flatten() {
        output::field("address", address.as_str().unwrap_or_default())?;
    }
    for (input, from) in found["inputMapping"].as_object().into_iter().flatten() {
        output::field("maps", &format!("{input}={}", from.as_str().unwrap_or_default()))?;
    }
    let retry = &found["retryPolicy"];
    let backoff = retry["backoff"].as_str().unwrap_or_default();
    output::field("tries", &format!("{}, backoff {backoff}", retry["maxAttempts"]))?;
    Ok(Exit::Done)
}
