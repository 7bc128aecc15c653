//! `callboard workflows show`: one definition, of a host or of a file.

use std::path::Path;

use callboard_authoring::pretty;
use clap::Args;

use super::file::{Types, check};
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows show nightly-report > nightly-report.json
  callboard workflows show --expanded nightly-report.yaml

A host keeps a canonical JSON definition to the letter, and what was written shorter in its expanded form.
With --expanded a file is shown as a host would keep it, and no host is asked.")]
pub(super) struct ShowArgs {
    /// Id of the workflow, or a file with --expanded
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Print the canonical form, with all defaults and short forms spelled out
    #[arg(long)]
    expanded: bool,
    /// Print JSON; a definition always is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    if args.expanded && is_file(&args.workflow) {
        output::text(&of_file(Path::new(&args.workflow))?)?;
        return Ok(Exit::Done);
    }
    let definition = args.connection.client(earlier)?.workflow(&args.workflow).await?;
    let definition = if args.expanded {
        let value =
            serde_json::from_str(&definition).map_err(|it| CommandError::unreadable(&it))?;
        pretty(&value)
    } else {
        definition
    };
    if args.json || definition.ends_with('\n') {
        output::text(&definition)?;
    } else {
        output::line(&definition)?;
    }
    Ok(Exit::Done)
}

/// No id of a workflow has a dot or a slash.
fn is_file(name: &str) -> bool {
    name.contains(['.', '/'])
}

fn of_file(file: &Path) -> Result<String, CommandError> {
    let checked = check(file, Types::Any)
        .map_err(|mistakes| CommandError::failed(mistakes.lines(file).join("\n")))?;
    let value = serde_json::from_str(&checked.canonical);
    Ok(value.map_or(checked.canonical, |value| pretty(&value)))
}

/// The definition of a file or, where it is no file's name, of a host, as the protocol has it.
pub(super) async fn canonical(
    name: &str,
    client: impl FnOnce() -> Result<Client, CommandError>,
) -> Result<String, CommandError> {
    if is_file(name) { of_file(Path::new(name)) } else { client()?.workflow(name).await }
}
