//! `callboard agents deploy list`: an agent's versions as a table.

use clap::Args;
use comfy_table::Cell;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard agents deploy list vendor.acme.desk.assistant --json")]
pub(crate) struct ListArgs {
    /// Id of the agent
    #[arg(value_name = "AGENT")]
    agent: String,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let records = client.deployments(&args.agent).await?;
    if args.host.json {
        return output::document(&records);
    }
    let rows = records.into_iter().map(|record| {
        let share = record.canary_percent.map(|percent| format!("{percent} %"));
        [
            Cell::new(record.version),
            Cell::new(record.state.as_str()),
            Cell::new(record.channels.join(", ")),
            Cell::new(share.unwrap_or_default()),
            Cell::new(record.rollback_pointer.map(|it| it.to_string()).unwrap_or_default()),
        ]
    });
    output::table(["version", "state", "channels", "share", "replaced by"], rows.collect())?;
    Ok(Exit::Done)
}
