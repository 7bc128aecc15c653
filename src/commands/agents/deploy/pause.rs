//! `callboard agents deploy pause`, `resume`, `deprecate`: whether a version serves at all.

use clap::Args;

use callboard_protocol::{DeploymentState, DeploymentTransition, Transition};

use super::Target;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard agents deploy pause vendor.acme.desk.assistant@1.1.0
  callboard agents deploy resume vendor.acme.desk.assistant@1.1.0
  callboard agents deploy deprecate vendor.acme.desk.assistant@1.0.0

An active run keeps its version. A channel whose version is paused starts no runs.")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    target: Target,
}

pub(super) async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let asked = args.target.transition(Transition::Pause);
    ask(&args.target, asked, earlier).await
}

/// The protocol has no verb for it: a promotion to `active`.
pub(super) async fn resume(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let mut asked = args.target.transition(Transition::Promote);
    asked.to_state = Some(DeploymentState::Active);
    ask(&args.target, asked, earlier).await
}

pub(super) async fn deprecate(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let asked = args.target.transition(Transition::Deprecate);
    ask(&args.target, asked, earlier).await
}

async fn ask(
    target: &Target,
    asked: DeploymentTransition,
    earlier: &Connection,
) -> Result<Exit, CommandError> {
    let client = target.client(earlier)?;
    let record = target.ask(&client, &asked).await?;
    target.finish(&record)
}
