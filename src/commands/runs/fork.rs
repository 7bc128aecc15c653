//! `callboard runs fork`: replays a run, or branches from one of its events.

use clap::{Args, ValueEnum};
use serde_json::Value;

use callboard_protocol::{ForkMode, ForkRun, Object, RunOptions};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::inputs::parse_option;
use crate::screen::output;
use crate::watch::{Heading, definition_of_run, watch};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs fork run_0199f2c4 --mode replay
  callboard runs fork run_0199f2c4 --mode branch --from-seq 7 --config model='\"small\"' --follow
  callboard runs diff run_0199f2c4 run_0199f2d0

A replay repeats the run from its log: it makes no outward calls and waits for
nothing. A branch keeps the history before --from-seq and continues live. `callboard runs events`
numbers the events.")]
pub(crate) struct ForkArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// The kind of fork
    #[arg(long)]
    mode: Mode,
    /// Sequence of the first event that is not taken over; a replay without it begins at the start
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_sequence)]
    from_seq: Option<i64>,
    /// Run option of `configurable` that a branch changes, its value as JSON; repeatable
    #[arg(long = "config", value_name = "KEY=JSON", value_parser = parse_option)]
    configurable: Vec<(String, Value)>,
    /// Label of a branch, instead of its source's; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Watch the fork until it ends
    #[arg(long, short)]
    follow: bool,
    /// Print JSON: the fork, or with --follow one event per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Repeat the recorded history; no request leaves the host
    Replay,
    /// Keep the history before the event and continue live
    Branch,
}

pub(super) async fn run(mut args: ForkArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    check(&args)?;
    let client = args.connection.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let forked = client.fork(&args.run, &order(&args)).await;
    let forked = forked.map_err(|error| match error.code.as_deref() {
        Some("invalid_from_seq") => error.hint(numbers_of(&args.run)),
        _ => error,
    })?;
    if !args.follow {
        if args.json {
            output::json(&forked)?;
        } else {
            output::line(forked.run_id.as_str())?;
            if output::is_terminal() {
                let (source, run) = (&forked.source_run_id, &forked.run_id);
                output::hint(&format!("compare the two with `callboard runs diff {source} {run}`"));
            }
        }
        return Ok(Exit::Done);
    }
    let definition = if args.json { None } else { definition_of_run(&client, &args.run).await? };
    watch(&client, &forked.run_id, Heading::Fork, definition.as_deref(), args.json).await
}

/// What no host would take, said in the words of the command line.
fn check(args: &ForkArgs) -> Result<(), CommandError> {
    let is_changed = !args.configurable.is_empty() || !args.tags.is_empty();
    match args.mode {
        Mode::Branch if args.from_seq.is_none() => {
            Err(CommandError::usage("a branch needs --from-seq").hint(numbers_of(&args.run)))
        }
        Mode::Replay if is_changed => Err(CommandError::usage(
            "a replay changes nothing, so it takes no --config and no --tag",
        )
        .hint("--mode branch continues live with other options")),
        Mode::Branch | Mode::Replay => Ok(()),
    }
}

fn numbers_of(run: &str) -> String {
    format!("`callboard runs events {run}` numbers its events")
}

fn parse_sequence(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "expected the number of an event, as in 7".to_owned())
}

fn order(args: &ForkArgs) -> ForkRun {
    let configurable: Object = args.configurable.iter().cloned().collect();
    let overlay = RunOptions {
        configurable: (!configurable.is_empty()).then_some(configurable),
        tags: (!args.tags.is_empty()).then(|| args.tags.clone()),
        metadata: None,
    };
    ForkRun {
        mode: Some(match args.mode {
            Mode::Replay => ForkMode::Replay,
            Mode::Branch => ForkMode::Branch,
        }),
        from_seq: args.from_seq,
        run_options_overlay: (overlay != RunOptions::default()).then_some(overlay),
    }
}
