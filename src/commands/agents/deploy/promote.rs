//! `callboard agents deploy promote`: one state further, or as many as lead to a given one.

use clap::Args;
use clap::builder::PossibleValuesParser;

use callboard_protocol::{DeploymentState, Transition};

use super::Target;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};

/// The way of a version to its runs.
const WAY: [DeploymentState; 4] = [
    DeploymentState::Draft,
    DeploymentState::Test,
    DeploymentState::Staged,
    DeploymentState::Active,
];

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard agents deploy promote vendor.acme.desk.assistant@1.1.0
  callboard agents deploy promote vendor.acme.desk.assistant@1.1.0 --to staged
  callboard agents deploy promote vendor.acme.desk.assistant@1.1.0 --channel stable --percent 10

Without --to and --channel a version advances by one state: draft, test, staged, active. With
--channel it advances through all states to active.")]
pub(crate) struct PromoteArgs {
    /// Stop at this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(["test", "staged", "active"]))]
    to: Option<String>,
    /// Make it active on this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Share of the channel's runs; all of them if left out
    #[arg(long, value_name = "PERCENT", requires = "channel", value_parser = clap::value_parser!(u8).range(0..=100))]
    percent: Option<u8>,
    /// Run id of a passed evaluation, where the host requires one
    #[arg(long, value_name = "RUN")]
    eval_run: Option<String>,
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: PromoteArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let PromoteArgs { target, to, channel, percent, eval_run } = args;
    let client = target.client(earlier)?;
    let records = client.deployments(&target.version.agent).await?;
    let known = records.iter().find(|record| record.version == target.version.version);
    let from = known.map_or(DeploymentState::Draft, |record| record.state);
    let here = WAY.iter().position(|state| *state == from);
    let named = to.and_then(|to| WAY.into_iter().find(|state| state.as_str() == to));
    let last = named.or(channel.is_some().then_some(DeploymentState::Active));
    let last = last.and_then(|last| WAY.iter().position(|state| *state == last));
    // What is not on the way is the host's to refuse, or to take as one step.
    let steps = match (here, last) {
        (Some(here), Some(last)) if here < last => WAY[here + 1..=last].to_vec(),
        (Some(here), None) if here + 1 < WAY.len() => vec![WAY[here + 1]],
        (_, Some(last)) => vec![WAY[last]],
        (_, None) => vec![DeploymentState::Active],
    };
    let mut record = None;
    for (place, state) in steps.iter().enumerate() {
        let mut step = target.transition(Transition::Promote);
        step.to_state = Some(*state);
        if place + 1 == steps.len() {
            step.channel.clone_from(&channel);
            step.canary_percent = percent;
            step.eval_run_id = eval_run.as_deref().map(Into::into);
        }
        record = Some(target.ask(&client, &step).await?);
    }
    record.map_or(Ok(Exit::Done), |record| target.finish(&record))
}
