//! `callboard schedules add`: a workflow that runs by itself.

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use callboard_protocol::Timestamp;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::inputs::read_inputs;
use crate::screen::{output, words};

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
pub(crate) struct AddArgs {
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
    /// Member whose work it is, by its id or name
    #[arg(long = "as", value_name = "MEMBER")]
    roster: Option<String>,
    /// Inputs of each run: a JSON object, @FILE, or @- for standard input
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// While the last run goes on: skip, allow, queue or cancel [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = ["skip", "allow", "queue", "cancel"])]
    overlap: Option<String>,
    /// Times for which no host was there: skip, fire-once or fire-all [default: fire-once]
    #[arg(long, value_name = "POLICY", value_parser = ["skip", "fire-once", "fire-all"])]
    missed: Option<String>,
    /// Make it paused
    #[arg(long)]
    paused: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: AddArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    client.know_workflow(&args.workflow).await?;
    let mut body = json!({ "workflowId": args.workflow });
    let member = client.maybe_member_id(args.roster.as_deref()).await?;
    let inputs = args.input.as_deref().map(read_inputs).transpose()?;
    let fields: [(&str, Option<Value>); 7] = [
        ("cron", args.cron.map(Value::from)),
        ("timezone", args.timezone.map(Value::from)),
        ("at", args.at.map(|at| at.to_string().into())),
        ("rosterId", member.map(Value::from)),
        ("inputs", inputs.map(Value::from)),
        ("overlap", args.overlap.map(Value::from)),
        ("missedFirePolicy", args.missed.map(Value::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    if args.paused {
        body["enabled"] = false.into();
    }
    let made = client.add_schedule(&body).await?;
    if args.json {
        output::json(&made)?;
        return Ok(Exit::Done);
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
