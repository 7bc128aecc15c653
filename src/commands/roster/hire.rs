//! `callboard roster hire`: makes an agent a member with a name and workflows.

use clap::Args;

use callboard_protocol::{HireMember, RosterAgentRef, WorkflowId};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roster hire --persona Sally --agent community.callboard.starter.triager --workflow inbox
  callboard roster hire --persona Sam --agent vendor.acme.desk.writer --version 1.2.0 --json

Prints the member's id, which can be used wherever an agent's id can.")]
pub(crate) struct HireArgs {
    /// The name that people use
    #[arg(long, value_name = "NAME")]
    persona: String,
    /// Id of the installed agent that works under this name
    #[arg(long, value_name = "AGENT")]
    agent: String,
    /// Pin this version of the agent; default: the highest
    #[arg(long, value_name = "VERSION", conflicts_with = "channel")]
    version: Option<String>,
    /// Use the version that serves on this channel
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Id of a workflow that the member owns; repeatable
    #[arg(long = "workflow", value_name = "WORKFLOW")]
    workflows: Vec<String>,
    /// A short label; the persona if left out
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// What the member does, in one line
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Hire the member paused
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: HireArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    client.know_agent(&args.agent).await?;
    let member = client
        .hire(&HireMember {
            persona: args.persona,
            agent_ref: RosterAgentRef {
                agent_id: args.agent.into(),
                version: args.version,
                channel: args.channel,
            },
            workflows: args.workflows.into_iter().map(WorkflowId::from).collect(),
            enabled: !args.paused,
            label: args.label,
            description: args.description,
        })
        .await?;
    if args.host.json {
        return output::document(&member);
    }
    output::line(member.roster_id.as_str())?;
    if output::is_terminal() {
        output::hint(&format!("`callboard roster show {}` is the member's page", member.roster_id));
    }
    Ok(Exit::Done)
}
