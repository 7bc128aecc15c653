//! `callboard roster work list`: a member's work items.

use clap::Args;
use comfy_table::Cell;
use serde_json::json;

use super::super::Target;
use super::{said, title};
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard roster work list host:sally-1a2b3c4d --json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let (client, member) = args.target.reach(earlier).await?;
    let work = client.work(&member).await?;
    if args.target.host.json {
        output::json(&json!({ "work": work }))?;
        return Ok(Exit::Done);
    }
    if work.is_empty() {
        output::note("no work");
        return Ok(Exit::Done);
    }
    let rows = work.iter().map(|item| {
        let run = item.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let status = item.run_status.map_or_else(
            || Cell::new(words::plain(item.reason.as_deref().unwrap_or_default())),
            words::status_cell,
        );
        [
            Cell::new(&item.work_id),
            Cell::new(said(item.state)),
            Cell::new(title(item)),
            Cell::new(run),
            status,
        ]
    });
    output::table(["work", "state", "title", "run", "status"], rows.collect())?;
    Ok(Exit::Done)
}
