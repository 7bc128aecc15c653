//! `callboard runs keep`: runs that retention leaves alone.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs keep run_0199f2c4
  callboard runs keep --release run_0199f2c4
  callboard runs keep --list

A kept run and its log stay whatever [retention] says, until it is released.")]
pub(crate) struct KeepArgs {
    /// Id of the run
    #[arg(value_name = "RUN", required_unless_present = "list")]
    run: Option<String>,
    /// Let retention remove it again
    #[arg(long, conflicts_with = "list")]
    release: bool,
    /// List the runs that are kept
    #[arg(long, conflicts_with = "run")]
    list: bool,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    run_id: String,
    kept_at: Timestamp,
    kept_by: String,
}

pub(super) async fn run(args: KeepArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let run = match &args.run {
        Some(begun) => Some(client.whole_run_id(begun).await?),
        None => None,
    };
    match run {
        Some(run) if args.release => {
            client.release_run(&run).await?;
            output::done(&format!("{run} is kept no longer"))
        }
        Some(run) => {
            let kept = client.keep_run(&run).await?;
            args.host.show(&kept, &format!("{run} is kept"))
        }
        None => {
            let found = client.kept_runs().await?;
            let row = |line: Line| {
                let kept_at = words::moment(line.kept_at);
                [Cell::new(line.run_id), Cell::new(kept_at), Cell::new(words::plain(&line.kept_by))]
            };
            let headers = ["run", "kept", "by"];
            Listing::new("runs", headers, "no runs are kept").show(found, args.host.json, row)
        }
    }
}
