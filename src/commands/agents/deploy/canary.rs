//! `callboard agents deploy canary`: a version's share of a channel.

use clap::Args;

use callboard_protocol::Transition;

use super::Target;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard agents deploy canary vendor.acme.desk.assistant@1.1.0 --percent 50
  callboard agents deploy canary vendor.acme.desk.assistant@1.1.0 --percent 100

The other runs go to the previous version; 100 ends the canary.")]
pub(crate) struct CanaryArgs {
    /// Share of the channel's runs
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    percent: u8,
    /// Channel, where the version is on several
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: CanaryArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let CanaryArgs { target, percent, channel } = args;
    let mut asked = target.transition(Transition::AdjustCanary);
    asked.canary_percent = Some(percent);
    asked.channel = channel;
    let client = target.client(earlier)?;
    let record = target.ask(&client, &asked).await?;
    target.finish(&record)
}
