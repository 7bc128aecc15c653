//! `callboard runs signal`: writes into one of a run's channels.

use clap::Args;
use serde_json::{Value, json};

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::inputs::parse_json;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs signal run_0199f2c4 notes --value '\"ship it\"'
  callboard runs signal run_0199f2c4 total --value 3 --source-run run_0199f2c5

The workflow must declare the channel, with a reducer that takes writes in any order:
append, counter, votes, feedback or message.")]
pub(crate) struct SignalArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// Channel that the run's workflow declares
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// What to write, as JSON
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    value: Value,
    /// Run that writes
    #[arg(long, value_name = "RUN")]
    source_run: Option<String>,
    /// Engine that writes
    #[arg(long, value_name = "ENGINE")]
    source_engine: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) async fn run(mut args: SignalArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let mut body = json!({ "value": args.value });
    for (key, name) in [("sourceRunId", args.source_run), ("sourceEngineId", args.source_engine)] {
        if let Some(name) = name {
            body[key] = name.into();
        }
    }
    let answer = client.write_channel(&args.run, &args.channel, &body).await?;
    args.host.show(&answer, &format!("{} has it in {}", args.run, args.channel))
}
