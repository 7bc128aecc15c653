//! `callboard triggers`: what starts workflows from outside.

mod add;
mod dead_letters;
mod deliver;
mod list;
mod remove;
mod replay;
mod show;
mod state;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard triggers add nightly-report --source webhook
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
    List(list::ListArgs),
    /// Let webhooks, a queue, forms or mail start a workflow
    Add(add::AddArgs),
    /// Show one subscription: what it starts, and where things come in
    Show(show::ShowArgs),
    /// Remove a subscription; the runs that it started stay
    Remove(remove::RemoveArgs),
    /// Keep a subscription from taking anything
    Pause(state::PauseArgs),
    /// Let a paused subscription take things again
    Resume(state::ResumeArgs),
    /// Put something into a queue
    Deliver(deliver::DeliverArgs),
    /// Show what could not become a run
    DeadLetters(dead_letters::DeadLettersArgs),
    /// Start a run of what was given up
    Replay(replay::ReplayArgs),
}

pub(crate) async fn run(args: TriggersArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        TriggersCommand::List(args) => list::run(args, earlier).await,
        TriggersCommand::Add(args) => add::run(args, earlier).await,
        TriggersCommand::Show(args) => show::run(args, earlier).await,
        TriggersCommand::Remove(args) => remove::run(args, earlier).await,
        TriggersCommand::Pause(args) => state::pause(args, earlier).await,
        TriggersCommand::Resume(args) => state::resume(args, earlier).await,
        TriggersCommand::Deliver(args) => deliver::run(args, earlier).await,
        TriggersCommand::DeadLetters(args) => dead_letters::run(args, earlier).await,
        TriggersCommand::Replay(args) => replay::run(args, earlier).await,
    }
}
