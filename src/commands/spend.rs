//! `callboard spend`: what models were paid, by day and by name.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::Value;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard spend
  callboard spend --days 30 --json

Estimates from the providers' prices. Days begin at midnight, UTC.")]
pub(crate) struct SpendArgs {
    /// How many days, today included
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..=92))]
    days: u32,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached_tokens: u64,
    cost_usd: f64,
}

pub(crate) async fn run(args: SpendArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let found = client.spend(args.days).await?;
    if args.host.json {
        return output::document(&found);
    }
    let day = |line: &Value| line["day"].as_str().and_then(|day| day.get(..10)).map(str::to_owned);
    let name = |line: &Value| line["name"].as_str().map(words::plain);
    table("day", &found["days"], day)?;
    for (title, field) in [
        ("agent", "byAgent"),
        ("member", "byMember"),
        ("model", "byModel"),
        ("workflow", "byWorkflow"),
    ] {
        if found[field].as_array().is_some_and(|lines| !lines.is_empty()) {
            output::line("")?;
            table(title, &found[field], name)?;
        }
    }
    Ok(Exit::Done)
}

fn table(
    title: &'static str,
    lines: &Value,
    name: impl Fn(&Value) -> Option<String>,
) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    for line in lines.as_array().into_iter().flatten() {
        let used = Usage::deserialize(&line["used"]);
        let used = used.map_err(|error| CommandError::unreadable(&error))?;
        rows.push([
            Cell::new(name(line).unwrap_or_default()),
            Cell::new(used.calls),
            Cell::new(used.input_tokens),
            Cell::new(used.output_tokens),
            Cell::new(used.cached_tokens),
            Cell::new(words::dollars(used.cost_usd)),
        ]);
    }
    output::table([title, "calls", "tokens in", "out", "cached", "cost"], rows)
}
