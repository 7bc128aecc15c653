//! `callboard tools`: what agents and steps of the type `callboard.tool` can call.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use owo_colors::OwoColorize;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard tools list
  callboard tools show openwop:core.files.write

A step of the type callboard.tool calls one by its name; an agent calls those that its pack names.
MCP servers of the host are in the list while they answer."
)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// List the tools that this key may use
    List(ListArgs),
    /// Show what one tool takes, with an example of a step
    Show(ShowArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard tools list --json")]
struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard tools show openwop:core.openwop.http.fetch")]
struct ShowArgs {
    /// Name of the tool
    #[arg(value_name = "TOOL")]
    tool: String,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    tool_id: String,
    description: String,
    safety_tier: String,
    input_schema: Value,
}

pub(crate) async fn run(args: ToolsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        ToolsCommand::List(args) => list(args, earlier).await,
        ToolsCommand::Show(args) => show(args, earlier).await,
    }
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::TOOL, &[]).await?;
    Listing::new("tools", ["tool", "tier", "does"], "no tools")
        .next("`callboard tools show TOOL` shows what one takes")
        .show(json!({ "tools": found }), args.host.json, |tool: Tool| {
            let does = words::plain(&tool.description);
            let does = does.split_inclusive(". ").next().unwrap_or_default().trim_end();
            [Cell::new(words::plain(&tool.tool_id)), Cell::new(tool.safety_tier), Cell::new(does)]
        })
}

async fn show(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found: Value = args.host.client(earlier)?.get(&Kind::TOOL, &args.tool, "").await?;
    if args.host.json {
        return output::document(&found);
    }
    let tool: Tool =
        serde_json::from_value(found).map_err(|error| CommandError::unreadable(&error))?;
    let id = words::plain(&tool.tool_id);
    output::line(&id.bold().to_string())?;
    output::line(&words::plain(&tool.description))?;
    let schema = &tool.input_schema;
    let is_required = |name: &str| {
        schema["required"].as_array().into_iter().flatten().any(|needed| needed == name)
    };
    let arguments = schema["properties"].as_object();
    let arguments = arguments.filter(|arguments| !arguments.is_empty());
    let Some(arguments) = arguments else { return step(&id, &[]) };
    output::line("\narguments")?;
    for (name, argument) in arguments {
        let needed = if is_required(name) { ", required" } else { "" };
        let about = argument["description"].as_str();
        let about = about.map(|about| format!(" {about}")).unwrap_or_default();
        let line = format!("{name}:{about} ({}{needed})", kind(argument));
        output::line(&format!("  {}", words::plain(&line)))?;
    }
    let needed: Vec<&String> = arguments.keys().filter(|name| is_required(name)).collect();
    step(&id, &needed)
}

/// A step that calls the tool, with what it must be given.
fn step(id: &str, needed: &[&String]) -> Result<Exit, CommandError> {
    output::line("\nexample")?;
    output::line(&format!("  step:\n    type: callboard.tool\n    config:\n      tool: {id}"))?;
    if !needed.is_empty() {
        output::line("    inputs:\n      arguments:")?;
    }
    for name in needed {
        output::line(&format!("        {}: …", words::plain(name)))?;
    }
    Ok(Exit::Done)
}

fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", choices.join(", "));
    }
    match schema["type"].as_str() {
        Some("string") => "a text",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list",
        Some("object") => "a map",
        _ => "any value",
    }
    .to_owned()
}
