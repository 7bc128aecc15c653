//! `callboard reload`: a host reads its files again.

use clap::Args;
use serde_json::Value;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard reload
  callboard reload --url https://callboard.example.com --json

Workflows, packs with their prompts, trusted keys of publishers, budgets and limits of runs count at
once, for new runs; runs in flight keep what they started with. Where one file is wrong, nothing
changes and the exit code is 1. SIGHUP does the same, and says in the log what came of it.")]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    host: HostArgs,
}

pub(crate) async fn run(args: ReloadArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let answer: Value = args.host.client(earlier)?.reload().await?;
    let (workflows, packs) = (&answer["workflows"], &answer["packs"]);
    args.host.show(&answer, &format!("{workflows} workflows, {packs} packs"))?;
    if !args.host.json {
        for key in answer["needsRestart"].as_array().into_iter().flatten() {
            let key = key.as_str().unwrap_or_default();
            output::hint(&format!("{key} was changed, and counts from the next start on"));
        }
    }
    Ok(Exit::Done)
}
