//! `callboard schedules list`: schedules with what they did last and when they fire next.

use clap::Args;
use comfy_table::{Cell, Color};
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
use crate::screen::words;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard schedules list
  callboard schedules list --workflow nightly-report --json")]
pub(crate) struct ListArgs {
    /// Only schedules of this workflow
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// Only schedules of this member, by its id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    workflow_id: String,
    enabled: bool,
    description: String,
    next_fire_at: Option<Timestamp>,
    last_fire: Option<LastFire>,
}

#[derive(Deserialize)]
struct LastFire {
    outcome: String,
}

pub(super) async fn run(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let member = client.maybe_member_id(args.roster.as_deref()).await?;
    let query = given([("workflowId", args.workflow), ("rosterId", member)]);
    let found = json!({ "schedules": client.schedules(&query).await? });
    Listing::new("schedules", ["id", "workflow", "next", "last", "when"], "no schedules")
        .remedy("`callboard schedules add` makes one")
        .show(found, args.json, |line: Line| {
            [
                Cell::new(&line.id),
                Cell::new(words::plain(&line.workflow_id)),
                next(&line),
                last(line.last_fire.as_ref()),
                Cell::new(words::plain(&line.description)),
            ]
        })
}

fn next(line: &Line) -> Cell {
    match (line.enabled, line.next_fire_at) {
        (false, _) => Cell::new("paused").fg(Color::Yellow),
        (true, Some(at)) => Cell::new(words::moment(at)),
        (true, None) => Cell::new("done"),
    }
}

fn last(fire: Option<&LastFire>) -> Cell {
    match fire.map(|fire| fire.outcome.as_str()) {
        None => Cell::new("-"),
        Some("failed") => Cell::new("failed").fg(Color::Red),
        Some(outcome) => Cell::new(words::plain(outcome)),
    }
}

/// The one field that most commands here print.
pub(super) fn text_of(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
