//! `callboard triggers`: trigger subscriptions, by which other systems start workflows.

mod add;
mod deliveries;
mod presets;

use clap::{Args, Subcommand};
use comfy_table::{Cell, Color};
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::screen::listing::{Listing, given};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard triggers add nightly-report --source webhook
  callboard triggers add desk --source webhook --preset github --filter \"event == 'issues'\"
  callboard triggers deliver tsub_0199f2c4 --id order-17 --payload '{\"n\": 17}'
  callboard triggers dead-letters tsub_0199f2c4"
)]
pub(crate) struct TriggersArgs {
    #[command(subcommand)]
    command: TriggersCommand,
}

#[derive(Debug, Subcommand)]
enum TriggersCommand {
    /// List trigger subscriptions
    List(ListArgs),
    /// Let webhooks, a queue, forms or mail start a workflow
    Add(add::AddArgs),
    /// List the senders that webhooks know, and how each proves itself
    Presets(presets::PresetsArgs),
    /// Give a subscription another secret; the last one works for another day
    Rotate(add::RotateArgs),
    /// Show one subscription: its workflow, its address, its input mapping
    Show(ShowArgs),
    /// Remove a subscription; the runs that it started stay
    Remove(RemoveArgs),
    /// Pause a subscription: it refuses deliveries
    Pause(PauseArgs),
    /// Resume a paused subscription
    Resume(ResumeArgs),
    /// Deliver a message to a queue subscription
    Deliver(DeliverArgs),
    /// List deliveries that could not start a run
    DeadLetters(DeadLettersArgs),
    /// Start a run of a dead letter, or of all of them
    Replay(deliveries::ReplayArgs),
    /// List what came in, with attempts and latency
    Deliveries(deliveries::DeliveriesArgs),
    /// Remove a dead letter
    Drop(deliveries::DropArgs),
}

pub(crate) async fn run(args: TriggersArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        TriggersCommand::List(args) => list(args, earlier).await,
        TriggersCommand::Add(args) => add::add(args, earlier).await,
        TriggersCommand::Presets(args) => presets::presets(args, earlier).await,
        TriggersCommand::Rotate(args) => add::rotate(args, earlier).await,
        TriggersCommand::Show(args) => show(args, earlier).await,
        TriggersCommand::Remove(args) => remove(args, earlier).await,
        TriggersCommand::Pause(args) => pause(args, earlier).await,
        TriggersCommand::Resume(args) => resume(args, earlier).await,
        TriggersCommand::Deliver(args) => deliver(args, earlier).await,
        TriggersCommand::DeadLetters(args) => dead_letters(args, earlier).await,
        TriggersCommand::Replay(args) => deliveries::replay(args, earlier).await,
        TriggersCommand::Deliveries(args) => deliveries::deliveries(args, earlier).await,
        TriggersCommand::Drop(args) => deliveries::forget(args, earlier).await,
    }
}

/// What the host says as a path is an address here, for people and programs alike.
fn with_addresses(found: &mut Value, base: &str) {
    let Some(binding) = found.get_mut("binding").and_then(Value::as_object_mut) else { return };
    for said in binding.values_mut() {
        let path = said.as_str().filter(|said| said.starts_with('/'));
        if let Some(address) = path.map(|path| format!("{base}{path}")) {
            *said = address.into();
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers dead-letters tsub_0199f2c4 --limit 10")]
struct DeadLettersArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Cursor of the next page, as printed by the previous one
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeadLetter {
    attempt_event_id: String,
    reason: String,
    dead_lettered_at: Timestamp,
}

async fn dead_letters(args: DeadLettersArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let query = given([("limit", Some(args.limit.to_string())), ("cursor", args.cursor)]);
    let found = client.trigger_dead_letters(&args.id, &query).await?;
    Listing::new("deliveries", ["id", "reason", "when"], "no dead letters in the last 30 days")
        .next("`callboard triggers replay ID DELIVERY` starts a run of one")
        .show(found, args.host.json, |letter: DeadLetter| {
            let when = words::moment(letter.dead_lettered_at);
            [Cell::new(letter.attempt_event_id), Cell::new(letter.reason), Cell::new(when)]
        })
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers deliver tsub_0199f2c4 --id order-17 --payload '{\"n\": 17}'

A repeated id starts nothing and returns the first run.")]
struct DeliverArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    /// Your own id of the message, for deduplication
    #[arg(long = "id", value_name = "ID")]
    thing: String,
    /// The message, as JSON
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

async fn deliver(args: DeliverArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut body = json!({ "id": args.thing });
    if let Some(text) = &args.payload {
        body["payload"] = serde_json::from_str(text).map_err(|error| {
            CommandError::usage(format!("--payload is not JSON: {error}"))
                .hint("a text is written as '\"text\"'")
        })?;
    }
    let delivered: Value =
        client.post(&Kind::SUBSCRIPTION, &args.id, "/deliver", Some(&body)).await?;
    if args.host.json {
        return output::document(&delivered);
    }
    let part = |name: &str| delivered.get(name).and_then(Value::as_str);
    if let Some(run) = part("runId") {
        output::line(run)?;
    }
    let outcome = part("outcome").unwrap_or_default();
    output::note(&match part("message") {
        Some(why) => format!("{outcome}: {why}"),
        None => outcome.to_owned(),
    });
    if outcome == "dead-lettered" {
        let id = &args.id;
        output::hint(&format!(
            "`callboard triggers replay {id} DELIVERY` starts a run of it once its workflow accepts it; `callboard triggers dead-letters {id}` names it"
        ));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers list --json")]
struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    subscription_id: String,
    source: String,
    state: String,
    workflow_id: String,
    roster_id: Option<String>,
}

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.list(&Kind::SUBSCRIPTION, &[]).await?;
    Listing::new(
        "subscriptions",
        ["id", "source", "state", "workflow", "for"],
        "no trigger subscriptions",
    )
    .remedy("`callboard triggers add` creates one")
    .show(found, args.host.json, |line: Line| {
        let state = Cell::new(&line.state);
        let state = match line.state.as_str() {
            "active" => state.fg(Color::Green),
            "paused" => state.fg(Color::Yellow),
            _ => state.fg(Color::Red),
        };
        [
            Cell::new(line.subscription_id),
            Cell::new(line.source),
            state,
            Cell::new(line.workflow_id),
            Cell::new(line.roster_id.unwrap_or_default()),
        ]
    })
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers remove tsub_0199f2c4

Its address, its secret and its dead letters are removed too. The runs that it started stay.")]
struct RemoveArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

async fn remove(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    args.connection.client(earlier)?.remove(&Kind::SUBSCRIPTION, &args.id).await?;
    output::done(&format!("{} removed", args.id))
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers show tsub_0199f2c4")]
struct ShowArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn show(args: ShowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let mut found: Value = client.get(&Kind::SUBSCRIPTION, &args.id, "").await?;
    with_addresses(&mut found, client.base());
    if args.host.json {
        return output::document(&found);
    }
    let part = |pointer: &str| found.pointer(pointer).and_then(Value::as_str);
    output::field("trigger", &args.id)?;
    for (name, pointer) in [
        ("source", "/source"),
        ("state", "/state"),
        ("workflow", "/workflowId"),
        ("for", "/rosterId"),
        ("verifies", "/verification"),
        ("preset", "/preset"),
        ("filter", "/filter"),
        ("secret", "/secretFingerprint"),
    ] {
        if let Some(value) = part(pointer) {
            output::field(name, value)?;
        }
    }
    for (_, address) in found["binding"].as_object().into_iter().flatten() {
        output::field("address", address.as_str().unwrap_or_default())?;
    }
    for (input, from) in found["inputMapping"].as_object().into_iter().flatten() {
        output::field("maps", &format!("{input}={}", from.as_str().unwrap_or_default()))?;
    }
    let retry = &found["retryPolicy"];
    let backoff = retry["backoff"].as_str().unwrap_or_default();
    output::field("tries", &format!("{}, backoff {backoff}", retry["maxAttempts"]))?;
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers pause tsub_0199f2c4")]
struct PauseArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers resume tsub_0199f2c4")]
struct ResumeArgs {
    /// Id of the subscription
    #[arg(value_name = "SUBSCRIPTION_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let paused = json!({ "state": "paused" });
    let client = args.connection.client(earlier)?;
    client.change::<Value>(&Kind::SUBSCRIPTION, &args.id, &paused).await?;
    output::done(&format!("{} paused", args.id))
}

async fn resume(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let active = json!({ "state": "active" });
    let client = args.connection.client(earlier)?;
    client.change::<Value>(&Kind::SUBSCRIPTION, &args.id, &active).await?;
    output::done(&format!("{} resumed", args.id))
}
