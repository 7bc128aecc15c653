//! `callboard roster`: standing members, who own workflows and account for what they did.

mod dismiss;
mod fire;
mod hire;
mod list;
mod pause;
mod show;
mod update;
mod work;

use clap::{Args, Subcommand};

use callboard_protocol::AgentRosterEntry;

use crate::args::{Connection, HostArgs};
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard roster hire --persona Sally --agent community.callboard.starter.triager --workflow inbox
  callboard roster show Sally
  callboard roster work add Sally \"The printer is on fire\"
  callboard roster pause host:sally-1a2b3c4d

A member is a named instance of an installed agent: see `callboard agents list`. Its name
can be used instead of its id, if it is unique."
)]
pub(crate) struct RosterArgs {
    #[command(subcommand)]
    command: RosterCommand,
}

#[derive(Debug, Subcommand)]
enum RosterCommand {
    /// List the members that this key can see
    List(list::ListArgs),
    /// Hire an agent as a member with a name
    Hire(hire::HireArgs),
    /// Show a member: its workflows, runs, open questions and cost
    Show(show::ShowArgs),
    /// Change a member: its name, its agent, its workflows
    Update(update::UpdateArgs),
    /// Pause a member: nothing starts its workflows
    Pause(pause::PauseArgs),
    /// Resume a paused member
    Resume(pause::PauseArgs),
    /// Dismiss a member; its runs continue
    Dismiss(dismiss::DismissArgs),
    /// Start a workflow of a member now, for that member
    Fire(fire::FireArgs),
    /// A member's queue of work: add, list, claim, done, back
    Work(work::WorkArgs),
}

pub(crate) async fn run(args: RosterArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        RosterCommand::List(args) => list::run(args, earlier).await,
        RosterCommand::Hire(args) => hire::run(args, earlier).await,
        RosterCommand::Show(args) => show::run(args, earlier).await,
        RosterCommand::Update(args) => update::run(args, earlier).await,
        RosterCommand::Pause(args) => pause::pause(args, earlier).await,
        RosterCommand::Resume(args) => pause::resume(args, earlier).await,
        RosterCommand::Dismiss(args) => dismiss::run(args, earlier).await,
        RosterCommand::Fire(args) => Box::pin(fire::run(args, earlier)).await,
        RosterCommand::Work(args) => work::run(args, earlier).await,
    }
}

/// One member, with how to reach the host that has it.
#[derive(Debug, Args)]
struct Target {
    /// Id of the member, or its name if it is unique
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    host: HostArgs,
}

impl Target {
    /// The way to the host, and the member's id there.
    async fn reach(&self, earlier: &Connection) -> Result<(Client, String), CommandError> {
        let client = self.host.client(earlier)?;
        let id = client.member_id(&self.member).await?;
        Ok((client, id))
    }

    /// Shows a member that was changed.
    fn tell(&self, member: &AgentRosterEntry, what: &str) -> Result<Exit, CommandError> {
        if self.host.json {
            output::json(member)?;
        } else {
            let persona = words::plain(&member.persona);
            output::line(&format!("{persona} ({}) {what}", member.roster_id))?;
        }
        Ok(Exit::Done)
    }
}

/// `agent 1.2.0`, `agent on stable`, or the agent alone.
fn agent_of(member: &AgentRosterEntry) -> String {
    let agent = &member.agent_ref;
    match (&agent.version, &agent.channel) {
        (Some(version), _) => format!("{} {version}", agent.agent_id),
        (None, Some(channel)) => format!("{} on {channel}", agent.agent_id),
        (None, None) => agent.agent_id.to_string(),
    }
}

fn workflows_of(member: &AgentRosterEntry) -> String {
    let workflows: Vec<&str> = member.workflows.iter().map(|workflow| workflow.as_str()).collect();
    workflows.join(", ")
}
