//! `callboard workflows`: workflow definitions.

mod apply;
mod file;
mod graph;
mod new;
mod schema;
mod show;
mod test;
mod validate;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Deserialize;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard workflows new letters
  callboard workflows validate workflows/*.yaml
  callboard workflows apply workflows/nightly-report.yaml
  callboard workflows list

Definitions are YAML or JSON. `callboard nodes list` shows what a step can be."
)]
pub(crate) struct WorkflowsArgs {
    #[command(subcommand)]
    command: WorkflowsCommand,
}

#[derive(Debug, Subcommand)]
enum WorkflowsCommand {
    /// List the definitions that this key can see
    List(ListArgs),
    /// Print one definition, of a host or of a file
    Show(show::ShowArgs),
    /// Write a file to begin with
    New(new::NewArgs),
    /// Register definitions, or replace them
    Apply(apply::ApplyArgs),
    /// Remove a definition; runs that started with it continue
    Remove(RemoveArgs),
    /// Check definition files without a host
    Validate(validate::ValidateArgs),
    /// Try a workflow with scripted answers, without a host
    Test(test::TestArgs),
    /// Draw a definition
    Graph(graph::GraphArgs),
    /// Print a JSON Schema for editors
    Schema(schema::SchemaArgs),
}

pub(crate) async fn run(args: WorkflowsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        WorkflowsCommand::List(args) => list(args, earlier).await,
        WorkflowsCommand::Show(args) => show::run(args, earlier).await,
        WorkflowsCommand::New(args) => new::run(&args),
        WorkflowsCommand::Apply(args) => apply::run(args, earlier).await,
        WorkflowsCommand::Remove(args) => remove(args, earlier).await,
        WorkflowsCommand::Validate(args) => validate::run(args, earlier).await,
        WorkflowsCommand::Test(args) => test::run(&args),
        WorkflowsCommand::Graph(args) => graph::run(args, earlier).await,
        WorkflowsCommand::Schema(_) => schema::run(),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows list --json")]
struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    workflow_id: String,
    name: String,
    version: String,
    origin: String,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::WORKFLOW, &[]).await?;
    Listing::new("workflows", ["id", "name", "version", "origin"], "no workflows")
        .remedy("`callboard workflows apply FILE` registers one")
        .show(found, args.host.json, |workflow: Listed| {
            [
                Cell::new(workflow.workflow_id),
                Cell::new(words::plain(&workflow.name)),
                Cell::new(workflow.version),
                Cell::new(workflow.origin),
            ]
        })
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows remove nightly-report

Runs that started with it continue and can be forked. Its schedules, triggers and heartbeats stay
and fail when they fire. A definition that the host loaded from a folder cannot be removed.")]
struct RemoveArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    #[command(flatten)]
    connection: Connection,
}

async fn remove(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    args.connection.client(earlier)?.remove(&Kind::WORKFLOW, &args.workflow).await?;
    output::done(&format!("{} removed", args.workflow))
}
