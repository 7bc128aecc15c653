//! `callboard heartbeats add`: an address that is looked at.

use clap::Args;
use serde_json::{Value, json};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard heartbeats add triage-desk --watch https://status.example.com --every 300
  callboard heartbeats add desk --watch https://status.example.com --every 60 --as host:sally-1f

The first look only notes what is there. A later one that sees another status or another page
starts one run. An interval below the host's shortest becomes the shortest.")]
pub(crate) struct AddArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Address to look at
    #[arg(long, value_name = "ADDRESS")]
    watch: String,
    /// How often, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    every: u64,
    /// Member whose work it is, by its id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Make it paused
    #[arg(long)]
    paused: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.know_workflow(&args.workflow).await?;
    let mut body = json!({
        "workflowId": args.workflow, "url": args.watch, "intervalSec": args.every,
        "enabled": !args.paused,
    });
    if let Some(member) = client.maybe_member_id(args.roster.as_deref()).await? {
        body["rosterId"] = member.into();
    }
    let made = client.add_heartbeat(&body).await?;
    if args.json {
        output::json(&made)?;
        return Ok(Exit::Done);
    }
    output::line(made["id"].as_str().unwrap_or_default())?;
    let every = made.get("intervalSec").and_then(Value::as_u64).unwrap_or(args.every);
    output::note(&match args.paused {
        true => "paused".to_owned(),
        false => format!("looks every {every} seconds"),
    });
    Ok(Exit::Done)
}
