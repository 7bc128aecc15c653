//! `callboard nodes`: what a step of a workflow can be.

use callboard_authoring::unknown_name;
use clap::{Args, Subcommand};
use comfy_table::Cell;
use owo_colors::OwoColorize;
use serde::Deserialize;
use serde_json::{Value, json};

use super::known::KnownArgs;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard nodes list
  callboard nodes show core.approvalGate
  callboard nodes list --url http://127.0.0.1:8787

Works without a host, and knows the [nodes] of the configuration. With --url, it is what that host runs."
)]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    command: NodesCommand,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    /// List the node types
    List(ListArgs),
    /// Show what one type takes and gives, with an example
    Show(ShowArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard nodes list --json")]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    known: KnownArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard nodes show core.delay")]
struct ShowArgs {
    /// Id of the type
    #[arg(value_name = "TYPE")]
    type_id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    known: KnownArgs,
}

/// A type as hosts describe it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    type_id: String,
    summary: String,
    config: Vec<Field>,
    inputs: Vec<Field>,
    /// Fields, or words about them.
    outputs: Value,
    example: String,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    kind: String,
    required: bool,
    about: String,
}

pub(crate) async fn run(args: NodesArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        NodesCommand::List(args) => list(args, earlier).await,
        NodesCommand::Show(args) => show(args, earlier).await,
    }
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let nodes = args.known.node_types(earlier).await?;
    if args.json {
        return output::document(&json!({ "nodes": nodes }));
    }
    let row = |node: Value| {
        let node: Described = read(node)?;
        let summary = node.summary.split([';', ':']).next().unwrap_or_default();
        Ok([Cell::new(words::plain(&node.type_id)), Cell::new(words::plain(summary))])
    };
    let rows = nodes.into_iter().map(row).collect::<Result<Vec<_>, CommandError>>()?;
    output::table(["type", "does"], rows)?;
    Ok(Exit::Done)
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, CommandError> {
    serde_json::from_value(value).map_err(|error| CommandError::unreadable(&error))
}

async fn show(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let nodes = args.known.node_types(earlier).await?;
    let found = nodes.iter().find(|node| node["typeId"] == args.type_id.as_str());
    let node = found.ok_or_else(|| {
        let known: Vec<&str> = nodes.iter().filter_map(|node| node["typeId"].as_str()).collect();
        CommandError::new(Exit::NotFound, unknown_name("node type", &args.type_id, &known))
    })?;
    if args.json {
        return output::document(node);
    }
    let node: Described = read(node.clone())?;
    output::line(&words::plain(&node.type_id).bold().to_string())?;
    output::line(&words::plain(&node.summary))?;
    fields("config", &node.config)?;
    fields("inputs", &node.inputs)?;
    match node.outputs {
        Value::String(words) => output::line(&format!("\noutputs\n  {}", words::plain(&words)))?,
        outputs => fields("outputs", &read::<Vec<Field>>(outputs)?)?,
    }
    output::line("\nexample")?;
    for line in node.example.lines() {
        output::line(&format!("  {}", words::plain(line)))?;
    }
    Ok(Exit::Done)
}

fn fields(title: &str, fields: &[Field]) -> Result<(), CommandError> {
    if fields.is_empty() {
        return Ok(());
    }
    output::line(&format!("\n{title}"))?;
    for field in fields {
        let needed = if field.required { ", required" } else { "" };
        let line = format!("{}: {} ({}{needed})", field.name, field.about, field.kind);
        output::line(&format!("  {}", words::plain(&line)))?;
    }
    Ok(())
}
