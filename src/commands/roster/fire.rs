//! `callboard roster fire`: starts a member's workflow now.

use clap::Args;

use callboard_protocol::FireMember;

use super::Target;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::inputs::read_inputs;
use crate::watch::{Heading, announce, find_definition, watch};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard roster fire host:sally-1a2b3c4d inbox --input '{\"message\": \"Help!\"}' --follow
  callboard roster fire host:sally-1a2b3c4d inbox --json")]
pub(crate) struct FireArgs {
    #[command(flatten)]
    target: Target,
    /// Id of a workflow that the member owns
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Inputs: a JSON object, @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Watch the run until it ends
    #[arg(long, short)]
    follow: bool,
}

pub(super) async fn run(args: FireArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let (client, member) = args.target.reach(earlier).await?;
    let body = FireMember {
        inputs: args.input.as_deref().map(read_inputs).transpose()?.unwrap_or_default(),
        workflow_id: args.workflow.as_str().into(),
    };
    let fired = client.fire(&member, &body, None).await?;
    if !args.follow {
        return announce(&fired, args.target.host.json);
    }
    let definition = find_definition(&client, &args.workflow).await?;
    watch(&client, &fired, Heading::Run, definition.as_deref(), args.target.host.json).await
}
