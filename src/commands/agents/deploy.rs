//! `callboard agents deploy`: which version of an agent serves.

mod canary;
mod list;
mod pause;
mod promote;
mod rollback;

use std::str::FromStr;

use clap::{Args, Subcommand};

use callboard_protocol::{AgentDeployment, DeploymentTransition, PackVersion, Transition};

use crate::args::{Connection, HostArgs};
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard agents deploy list vendor.acme.desk.assistant
  callboard agents deploy promote vendor.acme.desk.assistant@1.1.0 --channel stable --percent 10
  callboard agents deploy canary vendor.acme.desk.assistant@1.1.0 --percent 100
  callboard agents deploy rollback vendor.acme.desk.assistant@1.1.0

Every change is recorded in a run: `callboard runs list --workflow callboard-deployment`."
)]
pub(crate) struct DeployArgs {
    #[command(subcommand)]
    command: DeployCommand,
}

#[derive(Debug, Subcommand)]
enum DeployCommand {
    /// List an agent's versions and their states
    List(list::ListArgs),
    /// Promote a version by one state, or make it active on a channel
    Promote(promote::PromoteArgs),
    /// Take a version out of service temporarily; its channels are kept
    Pause(pause::PauseArgs),
    /// Put a paused version back into service
    Resume(pause::PauseArgs),
    /// Take a version out of service permanently
    Deprecate(pause::PauseArgs),
    /// Go back to the version that served before
    Rollback(rollback::RollbackArgs),
    /// Change a version's share of a channel's runs
    Canary(canary::CanaryArgs),
}

pub(super) async fn run(args: DeployArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        DeployCommand::List(args) => list::run(args, earlier).await,
        DeployCommand::Promote(args) => promote::run(args, earlier).await,
        DeployCommand::Pause(args) => pause::pause(args, earlier).await,
        DeployCommand::Resume(args) => pause::resume(args, earlier).await,
        DeployCommand::Deprecate(args) => pause::deprecate(args, earlier).await,
        DeployCommand::Rollback(args) => rollback::run(args, earlier).await,
        DeployCommand::Canary(args) => canary::run(args, earlier).await,
    }
}

/// One version of one agent, with how to reach the host that has it.
#[derive(Debug, Args)]
struct Target {
    /// Which version of which agent
    #[arg(value_name = "AGENT@VERSION")]
    version: AgentVersion,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Clone)]
struct AgentVersion {
    agent: String,
    version: PackVersion,
}

impl FromStr for AgentVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (agent, version) = text.split_once('@').ok_or("write it as AGENT@VERSION")?;
        let version = version.parse::<PackVersion>().map_err(|error| error.to_string())?;
        Ok(Self { agent: agent.to_owned(), version })
    }
}

impl Target {
    fn client(&self, earlier: &Connection) -> Result<Client, CommandError> {
        self.host.client(earlier)
    }

    fn transition(&self, transition: Transition) -> DeploymentTransition {
        DeploymentTransition::new(self.version.version.clone(), transition)
    }

    /// Requests one transition and shows its outcome.
    async fn ask(
        &self,
        client: &Client,
        transition: &DeploymentTransition,
    ) -> Result<AgentDeployment, CommandError> {
        let record = client.deploy(&self.version.agent, transition).await?;
        if !self.host.json {
            output::line(&said(&record))?;
        }
        Ok(record)
    }

    fn finish(&self, record: &AgentDeployment) -> Result<Exit, CommandError> {
        if self.host.json {
            output::json(record)?;
        }
        Ok(Exit::Done)
    }
}

/// `vendor.acme.desk.assistant 1.1.0 is active on stable with 10 % of its runs`.
fn said(record: &AgentDeployment) -> String {
    let mut text = format!("{} {} is {}", record.agent_id, record.version, record.state.as_str());
    if let Some(pointer) = &record.rollback_pointer {
        text.push_str(&format!(" to {pointer}"));
    }
    if !record.channels.is_empty() {
        text.push_str(&format!(" on {}", record.channels.join(" and ")));
    }
    if let Some(percent) = record.canary_percent {
        text.push_str(&format!(" with {percent} % of its runs"));
    }
    text
}
