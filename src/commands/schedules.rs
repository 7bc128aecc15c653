//! `callboard schedules`: schedules of workflows.

use clap::{ArgGroup, Args, Subcommand};
use comfy_table::{Cell, Color};
use serde::Deserialize;
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::{Connection, HostArgs};
use crate::client::Kind;
use crate::exit::{CommandError, Exit};
use crate::inputs::read_inputs;
use crate::screen::listing::{Listing, given};
use crate::screen::{output, words};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard schedules add nightly-report --cron '0 9 * * MON-FRI' --timezone Europe/Berlin
  callboard schedules list
  callboard schedules next sched_0199f2c4 --count 10"
)]
pub(crate) struct SchedulesArgs {
    #[command(subcommand)]
    command: SchedulesCommand,
}

#[derive(Debug, Subcommand)]
enum SchedulesCommand {
    /// List schedules with their last and next fire
    List(ListArgs),
    /// Run a workflow by a cron pattern, or once at a set time
    Add(AddArgs),
    /// Remove a schedule; its runs continue
    Remove(RemoveArgs),
    /// Show when a schedule fires next
    Next(NextArgs),
    /// Pause a schedule
    Pause(PauseArgs),
    /// Resume a paused schedule, from its next time on
    Resume(ResumeArgs),
    /// Start a run of a schedule now, in addition to its own times
    RunNow(RunNowArgs),
}

pub(crate) async fn run(args: SchedulesArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        SchedulesCommand::List(args) => list(args, earlier).await,
        SchedulesCommand::Add(args) => add(args, earlier).await,
        SchedulesCommand::Remove(args) => remove(args, earlier).await,
        SchedulesCommand::Next(args) => next(args, earlier).await,
        SchedulesCommand::Pause(args) => pause(args, earlier).await,
        SchedulesCommand::Resume(args) => resume(args, earlier).await,
        SchedulesCommand::RunNow(args) => run_now(args, earlier).await,
    }
}

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("when").required(true).args(["cron", "at"]),
    after_help = "Examples:
  callboard schedules add nightly-report --cron '0 9 * * MON-FRI' --timezone Europe/Berlin
  callboard schedules add heartbeat --cron '*/30 * * * * *' --overlap queue
  callboard schedules add nightly-report --at 2026-12-31T22:00:00Z --input '{\"day\": \"last\"}'

A pattern has five fields (minute, hour, day of month, month, day of week), or six with
seconds first. Names such as MON and JAN are understood."
)]
struct AddArgs {
    /// Id of the workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Cron pattern
    #[arg(long, value_name = "PATTERN")]
    cron: Option<String>,
    /// IANA time zone of the pattern [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "at")]
    timezone: Option<String>,
    /// Run once, at this time
    #[arg(long, value_name = "TIME", value_parser = words::parse_time)]
    at: Option<Timestamp>,
    /// Member that the runs are for, by id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Inputs of each run: a JSON object, @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// While the previous run is active: skip, allow, queue or cancel [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = ["skip", "allow", "queue", "cancel"])]
    overlap: Option<String>,
    /// Times missed while no host was running: skip, fire-once or fire-all [default: fire-once]
    #[arg(long, value_name = "POLICY", value_parser = ["skip", "fire-once", "fire-all"])]
    missed: Option<String>,
    /// How soon its runs begin
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "normal", "high"])]
    priority: Option<String>,
    /// Create it paused
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    host: HostArgs,
}

async fn add(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    client.know_workflow(&args.workflow).await?;
    let mut body = json!({ "workflowId": args.workflow });
    let member = client.maybe_member_id(args.roster.as_deref()).await?;
    let inputs = args.input.as_deref().map(read_inputs).transpose()?;
    let fields: [(&str, Option<Value>); 8] = [
        ("cron", args.cron.map(Value::from)),
        ("timezone", args.timezone.map(Value::from)),
        ("at", args.at.map(|at| at.to_string().into())),
        ("rosterId", member.map(Value::from)),
        ("inputs", inputs.map(Value::from)),
        ("overlap", args.overlap.map(Value::from)),
        ("missedFirePolicy", args.missed.map(Value::from)),
        ("priority", args.priority.map(Value::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    if args.paused {
        body["enabled"] = false.into();
    }
    let made = client.add(&Kind::SCHEDULE, &body).await?;
    if args.host.json {
        return output::document(&made);
    }
    let part = |name: &str| made.get(name).and_then(Value::as_str).unwrap_or_default();
    output::line(part("id"))?;
    let next = match part("nextFireAt") {
        "" => "paused".to_owned(),
        at => format!("next at {at}"),
    };
    output::note(&format!("{}; {next}", part("description")));
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard schedules list
  callboard schedules list --workflow nightly-report --json")]
struct ListArgs {
    /// Only schedules of this workflow
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// Only schedules of this member, by its id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    #[command(flatten)]
    host: HostArgs,
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

async fn list(args: ListArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let member = client.maybe_member_id(args.roster.as_deref()).await?;
    let limit = Some("200".to_owned());
    let query = given([("limit", limit), ("workflowId", args.workflow), ("rosterId", member)]);
    let found = client.list_all(&Kind::SCHEDULE, "schedules", &query).await?;
    Listing::new("schedules", ["id", "workflow", "next", "last", "when"], "no schedules")
        .remedy("`callboard schedules add` creates one")
        .show(found, args.host.json, |line: Line| {
            [
                Cell::new(&line.id),
                Cell::new(words::plain(&line.workflow_id)),
                next_fire(&line),
                last_fire(line.last_fire.as_ref()),
                Cell::new(words::plain(&line.description)),
            ]
        })
}

fn next_fire(line: &Line) -> Cell {
    match (line.enabled, line.next_fire_at) {
        (false, _) => Cell::new("paused").fg(Color::Yellow),
        (true, Some(at)) => Cell::new(words::moment(at)),
        (true, None) => Cell::new("done"),
    }
}

fn last_fire(fire: Option<&LastFire>) -> Cell {
    match fire.map(|fire| fire.outcome.as_str()) {
        None => Cell::new("-"),
        Some("failed") => Cell::new("failed").fg(Color::Red),
        Some(outcome) => Cell::new(words::plain(outcome)),
    }
}

/// The one field that most commands here print.
fn text_of(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules next sched_0199f2c4 --count 10")]
struct NextArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    /// How many times to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    #[command(flatten)]
    host: HostArgs,
}

async fn next(args: NextArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let rest = format!("/next?count={}", args.count);
    let found: Value = client.get(&Kind::SCHEDULE, &args.id, &rest).await?;
    if args.host.json {
        return output::document(&found);
    }
    output::note(&text_of(&found, "description"));
    let next = found.get("next").and_then(Value::as_array);
    for at in next.into_iter().flatten().filter_map(Value::as_str) {
        output::line(at)?;
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules pause sched_0199f2c4")]
struct PauseArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules resume sched_0199f2c4

Times that were due during the pause are not caught up.")]
struct ResumeArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

async fn pause(args: PauseArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let disabled = json!({ "enabled": false });
    client.change::<Value>(&Kind::SCHEDULE, &args.id, &disabled).await?;
    output::done(&format!("{} paused", args.id))
}

async fn resume(args: ResumeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    let enabled = json!({ "enabled": true });
    let resumed: Value = client.change(&Kind::SCHEDULE, &args.id, &enabled).await?;
    output::line(&format!("{} resumed", args.id))?;
    let next = text_of(&resumed, "nextFireAt");
    output::note(&if next.is_empty() {
        "it has nothing left to fire".to_owned()
    } else {
        format!("next at {next}")
    });
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules remove sched_0199f2c4")]
struct RemoveArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    connection: Connection,
}

async fn remove(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    client.remove(&Kind::SCHEDULE, &args.id).await?;
    output::done(&format!("{} removed", args.id))
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard schedules run-now sched_0199f2c4")]
struct RunNowArgs {
    /// Id of the schedule
    #[arg(value_name = "SCHEDULE_ID")]
    id: String,
    #[command(flatten)]
    host: HostArgs,
}

async fn run_now(args: RunNowArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let started: Value = client.post(&Kind::SCHEDULE, &args.id, "/run-now", None::<&()>).await?;
    args.host.show(&started, &text_of(&started, "runId"))
}
