//! `callboard workflows`: the definitions that runs are made of.

mod apply;
mod list;
mod remove;
mod show;
mod validate;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use callboard_core::{Plan, PlanError};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

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
    List(list::ListArgs),
    /// Print one definition exactly as it was registered
    Show(show::ShowArgs),
    /// Register definitions, or replace them
    Apply(apply::ApplyArgs),
    /// Remove a definition; runs that began with it go on
    Remove(remove::RemoveArgs),
    /// Check definition files without a host
    Validate(validate::ValidateArgs),
}

pub(crate) async fn run(args: WorkflowsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        WorkflowsCommand::List(args) => list::run(args, earlier).await,
        WorkflowsCommand::Show(args) => show::run(args, earlier).await,
        WorkflowsCommand::Apply(args) => apply::run(args, earlier).await,
        WorkflowsCommand::Remove(args) => remove::run(args, earlier).await,
        WorkflowsCommand::Validate(args) => validate::run(&args),
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
