//! `callboard workflows apply`: registers definitions with a host, after checking them all.

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::json;

use super::{Files, check, complaint};
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows apply nightly-report.json

A run in flight keeps the definition that it started with.")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ApplyArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let mut checked = Vec::new();
    for file in &args.files.files {
        let found = check(file).map_err(|error| {
            CommandError::failed(complaint(file, &error))
                .hint("nothing was registered; mend the file and try again")
        })?;
        checked.push((file, found));
    }
    let mut applied = Vec::new();
    for (file, found) in checked {
        let id = found.plan.id().to_string();
        let put = client.put_workflow(&id, found.bytes).await;
        let is_new = put.map_err(|error| CommandError {
            what: format!("{}: {}", file.display(), error.what),
            ..error
        })?;
        let done = if is_new { "created" } else { "replaced" };
        if !args.json {
            output::line(&format!("{} {id} {done}", "✓".green()))?;
        }
        applied.push(json!({ "workflowId": id, "outcome": done }));
    }
    if args.json {
        output::json(&json!({ "workflows": applied }))?;
    }
    Ok(Exit::Done)
}
