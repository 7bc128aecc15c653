//! `callboard hosts`: the processes that drive runs, and the providers that they ask.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use serde::Deserialize;

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  callboard hosts list
  callboard hosts --probe anthropic"
)]
pub(crate) struct HostsArgs {
    #[command(subcommand)]
    command: Option<HostsCommand>,
    /// Ask this provider of models whether it is there and knows the key
    #[arg(long, value_name = "PROVIDER")]
    probe: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Subcommand)]
enum HostsCommand {
    /// List the hosts of the database, with what they hold and when they were seen last
    #[command(after_help = "Examples:
  callboard hosts list --json")]
    List(HostArgs),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    host_id: String,
    version: String,
    started_at: Timestamp,
    claims: Claims,
    #[serde(default)]
    seen: Option<Seen>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    address: String,
    at: Timestamp,
    is_gone: bool,
    database_latency_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claims {
    runs: u64,
    most_runs: u64,
}

pub(crate) async fn run(args: HostsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    if let Some(HostsCommand::List(host)) = &args.command {
        return list(host, earlier).await;
    }
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
    list(&args.host, earlier).await
}

async fn list(host: &HostArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = host.client(earlier)?.hosts().await?;
    let headers = ["host", "version", "started", "runs", "of", "address", "seen", "database"];
    Listing::new("hosts", headers, "no hosts").show(found, host.json, |line: Line| {
        let of = |shown: fn(&Seen) -> String| line.seen.as_ref().map(shown).unwrap_or_default();
        let (address, seen) = (of(|seen| words::plain(&seen.address)), of(last_seen));
        let latency = of(|seen| format!("{} ms", seen.database_latency_ms));
        [
            Cell::new(line.host_id),
            Cell::new(line.version),
            Cell::new(words::moment(line.started_at)),
            Cell::new(line.claims.runs),
            Cell::new(line.claims.most_runs),
            Cell::new(address),
            Cell::new(seen),
            Cell::new(latency),
        ]
    })
}

fn last_seen(seen: &Seen) -> String {
    let at = words::moment(seen.at);
    if seen.is_gone { format!("{at}, gone") } else { at }
}
