//! `callboard chat`: gives a task to the member or agent that a text mentions, and follows its run.

use clap::Args;

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::watch::{Heading, watch};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard chat '@Sally The printer is on fire.'
  callboard chat 'Whose is this, @community.callboard.starter.triager? Where is my parcel?'

The exit code is 1 when the run failed or was cancelled. Ctrl-C stops the watching, not
the run. What the run asks is answered as with `callboard run --follow`.")]
pub(crate) struct ChatArgs {
    /// The task; mention the member or agent by @name or @id
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    /// Print JSON: one event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: ChatArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let run = client.chat(args.text.join(" ")).await?;
    watch(&client, &run, Heading::Run, None, args.json).await
}
