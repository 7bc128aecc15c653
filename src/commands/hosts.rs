//! `callboard hosts`: the processes that drive runs, and the providers that they ask.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard hosts
  callboard hosts --probe anthropic")]
pub(crate) struct HostsArgs {
    /// Ask this provider of models whether it is there and knows the key
    #[arg(long, value_name = "PROVIDER")]
    probe: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    host_id: String,
    version: String,
    started_at: Timestamp,
    claims: Claims,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claims {
    runs: u64,
    most_runs: u64,
}

pub(crate) async fn run(args: HostsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    if let Some(provider) = &args.probe {
        let found = client.probe_provider(provider).await?;
        if args.host.json {
            return output::document(&found);
        }
        return match found["problem"].as_str() {
            None => output::done(&format!("{provider} is there and knows the key")),
            Some(problem) => Err(CommandError::failed(words::plain(problem))),
        };
    }
    let found = client.hosts().await?;
    let headers = ["host", "version", "started", "runs", "of"];
    Listing::new("hosts", headers, "no hosts").show(found, args.host.json, |line: Line| {
        [
            Cell::new(line.host_id),
            Cell::new(line.version),
            Cell::new(words::moment(line.started_at)),
            Cell::new(line.claims.runs),
            Cell::new(line.claims.most_runs),
        ]
    })
}
