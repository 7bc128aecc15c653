//! `callboard runs resume`: resumes a paused run.

use clap::Args;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};

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
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(mut args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let answer = client.resume(&args.run, args.reason).await?;
    args.host.show(&answer, &format!("{} resumed", args.run))
}
