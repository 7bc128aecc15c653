//! `callboard triggers replay`: a run of what was given up.

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers replay tsub_0199f2c4 dlv_0199f2c5")]
pub(crate) struct ReplayArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Id of the dead letter
    #[arg(value_name = "DELIVERY_ID")]
    delivery: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ReplayArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let started = client.replay_delivery(&args.id, &args.delivery).await?;
    if args.json {
        output::json(&started)?;
    } else {
        output::line(started.get("runId").and_then(Value::as_str).unwrap_or_default())?;
    }
    Ok(Exit::Done)
}
