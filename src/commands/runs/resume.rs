//! `callboard runs resume`: lets a paused run go on.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard runs resume run_0199f2c4")]
pub(crate) struct ResumeArgs {
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

pub(super) async fn run(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let answer = client.resume(&args.run, args.reason).await?;
    if args.json {
        output::json(&answer)?;
    } else {
        output::line(&format!("{} goes on", args.run))?;
    }
    Ok(Exit::Done)
}
