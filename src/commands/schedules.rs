//! `callboard schedules`: when workflows run by themselves.

mod add;
mod list;
mod next;
mod pause;
mod remove;
mod run_now;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

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
    /// List schedules with what they did last and when they fire next
    List(list::ListArgs),
    /// Run a workflow by a cron pattern, or once at a time
    Add(add::AddArgs),
    /// Forget a schedule; its runs go on
    Remove(remove::RemoveArgs),
    /// Show when a schedule fires next
    Next(next::NextArgs),
    /// Keep a schedule from firing
    Pause(pause::PauseArgs),
    /// Let a paused schedule fire again, from its next time on
    Resume(pause::ResumeArgs),
    /// Start a run of a schedule beside its own times
    RunNow(run_now::RunNowArgs),
}

pub(crate) async fn run(args: SchedulesArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        SchedulesCommand::List(args) => list::run(args, earlier).await,
        SchedulesCommand::Add(args) => add::run(args, earlier).await,
        SchedulesCommand::Remove(args) => remove::run(args, earlier).await,
        SchedulesCommand::Next(args) => next::run(args, earlier).await,
        SchedulesCommand::Pause(args) => pause::pause(args, earlier).await,
        SchedulesCommand::Resume(args) => pause::resume(args, earlier).await,
        SchedulesCommand::RunNow(args) => run_now::run(args, earlier).await,
    }
}
