//! `callboard runs events`: a run's log so far, or live.

use clap::{Args, ValueEnum};

use callboard_protocol::{Event, RunEvent, RunId, StreamTier};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::watch::answers::Answers;
use crate::watch::follow::{self, Audience, Ending};
use crate::watch::{conclude, definition_of_run};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs events run_0199f2c4 --follow
  callboard runs events run_0199f2c4 --json | jq .type
  callboard runs events run_0199f2c4 --follow --mode messages

The number before each line is the event's sequence, as `callboard runs fork --from-seq` takes it.")]
pub(crate) struct EventsArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// Continue until the run ends
    #[arg(long, short)]
    follow: bool,
    /// Which events; repeatable, but `values` cannot be combined and needs --follow
    #[arg(long = "mode", value_name = "MODE", value_delimiter = ',', default_value = "debug")]
    modes: Vec<Mode>,
    /// Print one JSON document per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The stream modes of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Transitions of the run and its nodes
    Updates,
    /// A snapshot of the run after each transition
    Values,
    /// Streamed text
    Messages,
    /// The whole log
    Debug,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Updates => "updates",
            Self::Values => "values",
            Self::Messages => "messages",
            Self::Debug => "debug",
        }
    }

    fn admits(self, event: &RunEvent) -> bool {
        match Event::tier_of(&event.kind) {
            StreamTier::Update => matches!(self, Self::Updates | Self::Debug),
            StreamTier::Message => matches!(self, Self::Messages | Self::Debug),
            StreamTier::Value | StreamTier::Debug => self == Self::Debug,
        }
    }
}

pub(super) async fn run(mut args: EventsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    check(&args)?;
    let client = args.connection.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let audience = if args.json { Audience::Machines } else { Audience::Experts };
    let definition = if args.json { None } else { definition_of_run(&client, &args.run).await? };
    if args.follow {
        let run = RunId::from(args.run.as_str());
        let mode = args.modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(",");
        let ending = follow::follow(
            &client,
            &run,
            &mode,
            audience,
            definition.as_deref(),
            Answers::Elsewhere,
        )
        .await?;
        // To read a failed run's log is no failure; only leaving early is worth a word.
        return Ok(if ending == Ending::Left {
            conclude(&run, ending, audience)
        } else {
            Exit::Done
        });
    }
    let mut events = client.events(&args.run).await?;
    events.retain(|event| args.modes.iter().any(|mode| mode.admits(event)));
    follow::show_all(&events, audience, definition.as_deref())?;
    Ok(Exit::Done)
}

fn check(args: &EventsArgs) -> Result<(), CommandError> {
    if !args.modes.contains(&Mode::Values) {
        return Ok(());
    }
    if args.modes.len() > 1 {
        return Err(CommandError::usage("--mode values cannot be combined with another mode")
            .hint("the others can: --mode updates,messages"));
    }
    if !args.follow {
        return Err(CommandError::usage("--mode values needs --follow")
            .hint(format!("`callboard runs show {}` prints the latest snapshot", args.run)));
    }
    Ok(())
}
