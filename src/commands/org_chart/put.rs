//! `callboard org-chart put`: draws the chart anew from a file.

use std::io::Read as _;

use clap::Args;
use serde_json::{Value, json};

use super::show::show;
use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard org-chart put chart.json
  callboard org-chart show --json | sed 's/Sales/Field/' | callboard org-chart put -

The file holds `departments` and `members`, or what `org-chart show --json` printed. A version in it
must be the one that the host has: somebody else may have drawn meanwhile.")]
pub(crate) struct PutArgs {
    /// JSON file with the chart, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: PutArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    let put = client.put_org_chart(&read(&args.file)?).await?;
    if args.json {
        output::json(&put)?;
        return Ok(Exit::Done);
    }
    output::note(&format!("version {}", put["version"]));
    show(&put)
}

/// What the host takes: a chart that it showed stands under a key of its own, with its owner in it.
fn read(file: &str) -> Result<Value, CommandError> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| CommandError::usage(format!("cannot read {file}: {error}")))?;
    let mut found: Value = serde_json::from_str(&text)
        .map_err(|error| CommandError::usage(format!("{file} is not JSON: {error}")))?;
    if found.get("chart").is_none() {
        return Ok(found);
    }
    let part = |name: &str| found["chart"][name].clone();
    let mut chart = json!({ "departments": part("departments"), "members": part("members") });
    chart["version"] = found["version"].take();
    Ok(chart)
}
