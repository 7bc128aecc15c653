//! `callboard workflows list`: what this key can run.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
struct WorkflowList {
    workflows: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(alias = "workflowId")]
    id: String,
    name: String,
    version: String,
    #[serde(default)]
    origin: Option<String>,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.workflows().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let list: WorkflowList = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    if list.workflows.is_empty() {
        output::note("no workflows");
        output::hint("`callboard workflows apply FILE` registers one");
        return Ok(Exit::Done);
    }
    let rows = list.workflows.into_iter().map(|workflow| {
        [
            Cell::new(workflow.id),
            Cell::new(words::plain(&workflow.name)),
            Cell::new(workflow.version),
            Cell::new(workflow.origin.unwrap_or_default()),
        ]
    });
    output::table(["id", "name", "version", "origin"], rows.collect())?;
    Ok(Exit::Done)
}
