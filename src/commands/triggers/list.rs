//! `callboard triggers list`: the subscriptions, without their secrets.

use clap::Args;
use comfy_table::{Cell, Color};
use serde::Deserialize;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers list --json")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
struct List {
    subscriptions: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    subscription_id: String,
    source: String,
    state: String,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.subscriptions().await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    let list: List = serde_json::from_value(found).map_err(|error| {
        CommandError::failed(format!("the host's list cannot be read: {error}"))
    })?;
    if list.subscriptions.is_empty() {
        output::note("no trigger subscriptions; `callboard triggers add` makes one");
        return Ok(Exit::Done);
    }
    let rows = list.subscriptions.iter().map(|line| {
        let state = Cell::new(&line.state);
        let state = match line.state.as_str() {
            "active" => state.fg(Color::Green),
            "paused" => state.fg(Color::Yellow),
            _ => state.fg(Color::Red),
        };
        [Cell::new(&line.subscription_id), Cell::new(&line.source), state]
    });
    output::table(["id", "source", "state"], rows.collect())?;
    Ok(Exit::Done)
}
