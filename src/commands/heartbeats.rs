//! `callboard heartbeats`: addresses that are polled for changes.

use clap::{Args, Subcommand};
use comfy_table::{Cell, Color};
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard heartbeats add triage-desk --watch https://status.example.com --every 300
  callboard heartbeats list
  callboard heartbeats pause hb_0199f2c4"
)]
pub(crate) struct HeartbeatsArgs {
    #[command(subcommand)]
    command: HeartbeatsCommand,
}

#[derive(Debug, Subcommand)]
enum HeartbeatsCommand {
    /// List heartbeats with their last observation
    List(ListArgs),
    /// Poll an address, and run a workflow when it changes
    Add(AddArgs),
    /// Pause a heartbeat
    Pause(PauseArgs),
    /// Resume a heartbeat
    Resume(ResumeArgs),
    /// Remove a heartbeat; its runs continue
    Remove(RemoveArgs),
}

pub(crate) async fn run(args: HeartbeatsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        HeartbeatsCommand::List(args) => list(args, earlier).await,
        HeartbeatsCommand::Add(args) => add(args, earlier).await,
        HeartbeatsCommand::Pause(args) => pause(args, earlier).await,
        HeartbeatsCommand::Resume(args) => resume(args, earlier).await,
        HeartbeatsCommand::Remove(args) => remove(args, earlier).await,
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard heartbeats add triage-desk --watch https://status.example.com --every 300
  callboard heartbeats add desk --watch https://status.example.com --every 60 --as host:sally-1f

The first poll only stores the state. A later one that finds another status or another page
starts one run. An interval below the host's minimum is raised to it.")]
struct AddArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Address to poll
    #[arg(long, value_name = "ADDRESS")]
    watch: String,
    /// How often, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    every: u64,
    /// Member that the runs are for, by id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Create it paused
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    host: HostArgs,
}

async fn add(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    client.know_workflow(&args.workflow).await?;
    let mut body = json!({
        "workflowId": args.workflow, "url": args.watch, "intervalSec": args.every,
        "enabled": !args.paused,
    });
    if let Some(member) = client.maybe_member_id(args.roster.as_deref()).await? {
        body["rosterId"] = member.into();
    }
    let made = client.add(&Kind::HEARTBEAT, &body).await?;
    if args.host.json {
        return output::document(&made);
    }
    output::line(made["id"].as_str().unwrap_or_default())?;
    let every = made.get("intervalSec").and_then(Value::as_u64).unwrap_or(args.every);
    output::note(&match args.paused {
        true => "paused".to_owned(),
        false => format!("looks every {every} seconds"),
    });
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard heartbeats list
  callboard heartbeats list --json")]
struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    workflow_id: String,
    url: String,
    interval_sec: u64,
    enabled: bool,
    last: Option<Look>,
    changed_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Look {
    status: String,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.list(&Kind::HEARTBEAT, &[]).await?;
    let headers = ["id", "workflow", "every", "last", "changed", "address"];
    Listing::new("heartbeats", headers, "no heartbeats")
        .remedy("`callboard heartbeats add` creates one")
        .show(found, args.host.json, |line: Line| {
            [
                Cell::new(&line.id),
                Cell::new(words::plain(&line.workflow_id)),
                every(&line),
                last(line.last.as_ref()),
                Cell::new(line.changed_at.map_or("-".to_owned(), words::moment)),
                Cell::new(words::plain(&line.url)),
            ]
        })
}

fn every(line: &Line) -> Cell {
    match line.enabled {
        true => Cell::new(format!("{}s", line.interval_sec)),
        false => Cell::new("paused").fg(Color::Yellow),
    }
}

fn last(look: Option<&Look>) -> Cell {
    match look.map(|look| look.status.as_str()) {
        None => Cell::new("-"),
        Some("ok") => Cell::new("ok"),
        Some(trouble) => Cell::new(words::plain(trouble)).fg(Color::Red),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard heartbeats pause hb_0199f2c4")]
struct PauseArgs {
    /// Id of the heartbeat
    #[arg(value_name = "HEARTBEAT_ID")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard heartbeats resume hb_0199f2c4

A change during the pause is found by the next poll.")]
struct ResumeArgs {
    /// Id of the heartbeat
    #[arg(value_name = "HEARTBEAT_ID")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let disabled = json!({ "enabled": false });
    let changed: Value = client.change(&Kind::HEARTBEAT, &args.id, &disabled).await?;
    match args.host.json {
        true => output::json(&changed)?,
        false => output::line(&format!("{} paused", args.id))?,
    }
    Ok(Exit::Done)
}

async fn resume(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let enabled = json!({ "enabled": true });
    let changed: Value = client.change(&Kind::HEARTBEAT, &args.id, &enabled).await?;
    match args.host.json {
        true => output::json(&changed)?,
        false => output::line(&format!("{} resumed", args.id))?,
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard heartbeats remove hb_0199f2c4")]
struct RemoveArgs {
    /// Id of the heartbeat
    #[arg(value_name = "HEARTBEAT_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

async fn remove(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    client.remove(&Kind::HEARTBEAT, &args.id).await?;
    output::done(&format!("{} removed", args.id))
}
