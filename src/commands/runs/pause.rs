//! `callboard runs pause`: pauses a run until it is resumed.

use clap::{Args, ValueEnum};

use callboard_protocol::{DrainPolicy, PauseRun};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs pause run_0199f2c4
  callboard runs pause run_0199f2c4 --drain immediate --reason 'provider is down'")]
pub(crate) struct PauseArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// What to do with nodes that are running
    #[arg(long, value_name = "POLICY", default_value = "drain-current-node")]
    drain: Drain,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Drain {
    /// Let them finish first
    DrainCurrentNode,
    /// Stop them now and restart them on resume
    Immediate,
}

pub(super) async fn run(mut args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let drain_policy = match args.drain {
        Drain::DrainCurrentNode => DrainPolicy::DrainCurrentNode,
        Drain::Immediate => DrainPolicy::Immediate,
    };
    let answer = client
        .pause(&args.run, &PauseRun { reason: args.reason, drain_policy: Some(drain_policy) })
        .await?;
    if args.host.json {
        return output::document(&answer);
    }
    match drain_policy {
        DrainPolicy::Immediate => output::line(&format!("{} paused", args.run))?,
        DrainPolicy::DrainCurrentNode => {
            output::line(&format!("{} pauses after its current nodes", args.run))?
        }
    }
    Ok(Exit::Done)
}
