//! `callboard workflows`: workflow definitions.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::Cell;
use owo_colors::OwoColorize;
use serde::{Deserialize, Serialize};
use serde_json::json;

use callboard_core::{Plan, PlanError};

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard workflows validate workflows/*.json
  callboard workflows apply workflows/nightly-report.json
  callboard workflows list"
)]
pub(crate) struct WorkflowsArgs {
    #[command(subcommand)]
    command: WorkflowsCommand,
}

#[derive(Debug, Subcommand)]
enum WorkflowsCommand {
    /// List the definitions that this key can see
    List(ListArgs),
    /// Print one definition exactly as it was registered
    Show(ShowArgs),
    /// Register definitions, or replace them
    Apply(ApplyArgs),
    /// Remove a definition; runs that started with it continue
    Remove(RemoveArgs),
    /// Check definition files without a host
    Validate(ValidateArgs),
}

pub(crate) async fn run(args: WorkflowsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        WorkflowsCommand::List(args) => list(args, earlier).await,
        WorkflowsCommand::Show(args) => show(args, earlier).await,
        WorkflowsCommand::Apply(args) => apply(args, earlier).await,
        WorkflowsCommand::Remove(args) => remove(args, earlier).await,
        WorkflowsCommand::Validate(args) => validate(&args),
    }
}

/// A definition file that was found good.
struct Checked {
    bytes: Vec<u8>,
    plan: Plan,
}

/// Reads and compiles a file; the error names the place inside it.
fn check(path: &Path) -> Result<Checked, PlanError> {
    let bytes = std::fs::read(path).map_err(|error| PlanError {
        path: String::new(),
        message: format!("cannot be read: {error}"),
    })?;
    let plan = Plan::parse(&bytes)?;
    Ok(Checked { bytes, plan })
}

/// `file: path: message`, the way compilers say it.
fn complaint(file: &Path, error: &PlanError) -> String {
    let file = file.display();
    if error.path.is_empty() {
        format!("{file}: {}", error.message)
    } else {
        format!("{file}: {error}")
    }
}

/// The files on a command line.
#[derive(Debug, Args)]
struct Files {
    /// Definition files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows apply nightly-report.json

A run in flight keeps the definition that it started with.")]
struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    host: HostArgs,
}

async fn apply(args: ApplyArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut checked = Vec::new();
    for file in &args.files.files {
        let found = check(file).map_err(|error| {
            CommandError::failed(complaint(file, &error))
                .hint("nothing was registered; fix the file and try again")
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
        if !args.host.json {
            output::line(&format!("{} {id} {done}", "✓".green()))?;
        }
        applied.push(json!({ "workflowId": id, "outcome": done }));
    }
    if args.host.json {
        output::json(&json!({ "workflows": applied }))?;
    }
    Ok(Exit::Done)
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

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows show nightly-report > nightly-report.json")]
struct ShowArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Print JSON; a definition always is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

async fn show(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let definition = client.workflow(&args.workflow).await?;
    if args.json || definition.ends_with('\n') {
        output::text(&definition)?;
    } else {
        output::line(&definition)?;
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows validate nightly-report.json
  callboard workflows validate workflows/*.json --json

Works without a host. Node types that a host may lack are reported by `apply` and by `run`.")]
struct ValidateArgs {
    #[command(flatten)]
    files: Files,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    file: String,
    is_valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

fn validate(args: &ValidateArgs) -> Result<Exit, CommandError> {
    let mut verdicts = Vec::new();
    for file in &args.files.files {
        let checked = check(file);
        if !args.json {
            match &checked {
                Ok(checked) => output::line(&format!(
                    "{} {}: {}",
                    "✓".green(),
                    file.display(),
                    checked.plan.id()
                ))?,
                Err(error) => {
                    output::note(&format!("{} {}", "error:".red().bold(), complaint(file, error)))
                }
            }
        }
        verdicts.push(Verdict {
            file: file.display().to_string(),
            is_valid: checked.is_ok(),
            workflow_id: checked.as_ref().ok().map(|checked| checked.plan.id().to_string()),
            path: checked.as_ref().err().map(|error| error.path.clone()),
            message: checked.as_ref().err().map(|error| error.message.clone()),
        });
    }
    if args.json {
        output::json(&serde_json::json!({ "files": verdicts }))?;
    }
    let wrong = verdicts.iter().filter(|verdict| !verdict.is_valid).count();
    Ok(if wrong == 0 { Exit::Done } else { Exit::Failed })
}
