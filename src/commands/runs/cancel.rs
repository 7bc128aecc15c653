//! `callboard runs cancel`: ends a run early.

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard runs cancel run_0199f2c4 --reason 'wrong customer'")]
pub(crate) struct CancelArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: CancelArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let answer = client.cancel(&args.run, args.reason).await?;
    if args.json {
        output::json(&answer)?;
        return Ok(Exit::Done);
    }
    let run = &args.run;
    match answer.get("status").and_then(Value::as_str).unwrap_or("unknown") {
        status @ ("cancelled" | "cancelling") => output::line(&format!("{run} {status}"))?,
        // Cancelling a run that ended before changes nothing.
        status => output::line(&format!("{run} had already ended: {status}"))?,
    }
    Ok(Exit::Done)
}
