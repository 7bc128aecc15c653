//! `callboard schedules next`: when a schedule fires.

use clap::Args;
use serde_json::Value;

use super::list::text_of;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules next sched_0199f2c4 --count 10")]
pub(crate) struct NextArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    /// How many times to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: NextArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let found = client.next_fires(&args.id, args.count).await?;
    if args.json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    output::note(&text_of(&found, "description"));
    let next = found.get("next").and_then(Value::as_array);
    for at in next.into_iter().flatten().filter_map(Value::as_str) {
        output::line(at)?;
    }
    Ok(Exit::Done)
}
