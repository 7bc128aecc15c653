//! `callboard nodes`: what a step of a workflow can be.

use callboard_authoring::{Field, NodeType, Outputs, node_type, node_types, unknown_name};
use clap::{Args, Subcommand};
use comfy_table::Cell;
use owo_colors::OwoColorize;
use serde_json::json;

use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard nodes list
  callboard nodes show core.approvalGate

Works without a host. `GET /v1/host/callboard/nodes` says what another host runs."
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
}

pub(crate) fn run(args: &NodesArgs) -> Result<Exit, CommandError> {
    match &args.command {
        NodesCommand::List(args) => list(args),
        NodesCommand::Show(args) => show(args),
    }
}

fn list(args: &ListArgs) -> Result<Exit, CommandError> {
    if args.json {
        let nodes: Vec<_> = node_types().iter().map(NodeType::to_json).collect();
        return output::document(&json!({ "nodes": nodes }));
    }
    let row = |node: &NodeType| {
        let summary = node.summary.split([';', ':']).next().unwrap_or_default();
        [Cell::new(node.type_id), Cell::new(summary)]
    };
    output::table(["type", "does"], node_types().iter().map(row).collect())?;
    Ok(Exit::Done)
}

fn show(args: &ShowArgs) -> Result<Exit, CommandError> {
    let node = node_type(&args.type_id).ok_or_else(|| {
        let known: Vec<&str> = node_types().iter().map(|node| node.type_id).collect();
        CommandError::new(Exit::NotFound, unknown_name("node type", &args.type_id, &known))
    })?;
    if args.json {
        return output::document(&node.to_json());
    }
    output::line(&node.type_id.bold().to_string())?;
    output::line(node.summary)?;
    fields("config", node.config)?;
    fields("inputs", node.inputs)?;
    match node.outputs {
        Outputs::Fixed(outputs) => fields("outputs", outputs)?,
        Outputs::Ports => output::line("\noutputs\n  its inputs, under their names")?,
        Outputs::Open(words) => output::line(&format!("\noutputs\n  {words}"))?,
    }
    output::line("\nexample")?;
    for line in node.example.lines() {
        output::line(&format!("  {line}"))?;
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
        let kind = field.shape.words();
        output::line(&format!("  {}: {} ({kind}{needed})", field.name, field.about))?;
    }
    Ok(())
}
