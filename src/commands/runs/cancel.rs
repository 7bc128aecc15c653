//! `callboard runs cancel`: cancels runs.

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs cancel run_0199f2c4 --reason 'wrong customer'
  callboard runs cancel run_0199f2c4 run_0199f2c5")]
pub(crate) struct CancelArgs {
    /// Ids of the runs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON, one document for each run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: CancelArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let mut exit = Exit::Done;
    for run in &args.runs {
        let run = &client.whole_run_id(run).await?;
        let answer = match client.cancel(run, args.reason.clone()).await {
            Ok(answer) => answer,
            // The others are cancelled all the same.
            Err(error) if args.runs.len() > 1 && error.exit != Exit::Unreachable => {
                output::error(&error);
                exit = error.exit;
                continue;
            }
            Err(error) => return Err(error),
        };
        if args.json {
            output::json(&answer)?;
            continue;
        }
        match answer.get("status").and_then(Value::as_str).unwrap_or("unknown") {
            status @ ("cancelled" | "cancelling") => output::line(&format!("{run} {status}"))?,
            // Cancelling a run that ended before changes nothing.
            status => output::line(&format!("{run} had already ended: {status}"))?,
        }
    }
    Ok(exit)
}
