//! `callboard workflows show`: one definition, byte for byte.

use clap::Args;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows show nightly-report > nightly-report.json")]
pub(crate) struct ShowArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Print JSON; a definition always is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let definition = client.workflow(&args.workflow).await?;
    if args.json || definition.ends_with('\n') {
        output::text(&definition)?;
    } else {
        output::line(&definition)?;
    }
    Ok(Exit::Done)
}
