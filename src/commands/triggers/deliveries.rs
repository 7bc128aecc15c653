//! What came in over a subscription, and what people do with what was given up.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;
use serde_json::Value;

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard triggers deliveries tsub_0199f2c4
  callboard triggers deliveries tsub_0199f2c4 --letter dlv_0199f2c5")]
pub(super) struct DeliveriesArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Show this dead letter with its content
    #[arg(long, value_name = "DELIVERY_ID")]
    letter: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    delivery_id: String,
    state: String,
    attempts: u32,
    received_at: Timestamp,
    #[serde(default)]
    latency_ms: Option<u64>,
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn deliveries(
    args: DeliveriesArgs,
    earlier: &Connection,
) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    if let Some(letter) = &args.letter {
        return output::document(&client.trigger_dead_letter(&args.id, letter).await?);
    }
    let found = client.trigger_deliveries(&args.id).await?;
    let headers = ["id", "state", "attempts", "received", "took", "run or reason"];
    let listing = Listing::new("deliveries", headers, "nothing came in during the last week");
    listing.show(found, args.host.json, |line: Line| {
        [
            Cell::new(line.delivery_id),
            Cell::new(line.state),
            Cell::new(line.attempts),
            Cell::new(words::moment(line.received_at)),
            Cell::new(line.latency_ms.map(|took| format!("{took} ms")).unwrap_or_default()),
            Cell::new(words::plain(&line.run_id.or(line.reason).unwrap_or_default())),
        ]
    })
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard triggers replay tsub_0199f2c4 dlv_0199f2c5
  callboard triggers replay tsub_0199f2c4 --all")]
pub(super) struct ReplayArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Id of the dead letter
    #[arg(value_name = "DELIVERY_ID", required_unless_present = "all")]
    delivery: Option<String>,
    /// All of them, up to 100 at once
    #[arg(long, conflicts_with = "delivery")]
    all: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn replay(args: ReplayArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    if let Some(delivery) = &args.delivery {
        let started = client.replay_delivery(&args.id, delivery).await?;
        let run = started.get("runId").and_then(Value::as_str).unwrap_or_default();
        return args.host.show(&started, run);
    }
    let replayed = client.replay_deliveries(&args.id).await?;
    if args.host.json {
        return output::document(&replayed);
    }
    for run in replayed["runIds"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output::line(run)?;
    }
    for left in replayed["left"].as_array().into_iter().flatten() {
        let text = |name: &str| left[name].as_str().unwrap_or_default().to_owned();
        output::note(&words::plain(&format!("{}: {}", text("deliveryId"), text("reason"))));
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers drop tsub_0199f2c4 dlv_0199f2c5")]
pub(super) struct DropArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Id of the dead letter
    #[arg(value_name = "DELIVERY_ID")]
    delivery: String,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn forget(args: DropArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    client.drop_delivery(&args.id, &args.delivery).await?;
    let answer = serde_json::json!({ "deliveryId": args.delivery, "dropped": true });
    args.host.show(&answer, "dropped")
}
