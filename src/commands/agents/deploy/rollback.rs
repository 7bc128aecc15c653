//! `callboard agents deploy rollback`: back to the version that served before.

use clap::Args;

use callboard_protocol::Transition;

use super::Target;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard agents deploy rollback vendor.acme.desk.assistant@1.1.0 --reason error-rate

The version is removed from all its channels and cannot serve again; publish a fix as a new version.")]
pub(crate) struct RollbackArgs {
    /// Channel whose previous version is recorded as the replacement
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// A short label for the log
    #[arg(long, value_name = "LABEL")]
    reason: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: RollbackArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let RollbackArgs { target, channel, reason } = args;
    let mut asked = target.transition(Transition::Rollback);
    asked.channel = channel;
    asked.reason = reason;
    let client = target.client(earlier)?;
    let record = target.ask(&client, &asked).await?;
    target.finish(&record)
}
