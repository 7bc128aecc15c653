//! `callboard runs`: reading, controlling and forking runs.

mod ancestry;
mod bundle;
mod cancel;
mod diff;
mod events;
mod fork;
mod keep;
mod list;
mod pause;
mod report;
mod request;
mod resume;
mod retry;
mod show;
mod signal;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard runs list --status failed --since 24h
  callboard runs show run_0199f2c4
  callboard runs events run_0199f2c4 --follow"
)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, newest first
    List(list::ListArgs),
    /// Show one run
    Show(show::ShowArgs),
    /// Print a run's log, or follow it live
    Events(events::EventsArgs),
    /// Compare two runs
    Diff(diff::DiffArgs),
    /// Export one run without its secrets
    Bundle(bundle::BundleArgs),
    /// Print one run as one HTML file
    Report(report::ReportArgs),
    /// Show what models were sent and what they answered
    Request(request::RequestArgs),
    /// Cancel a run
    Cancel(cancel::CancelArgs),
    /// Pause a run
    Pause(pause::PauseArgs),
    /// Resume a paused run
    Resume(resume::ResumeArgs),
    /// Write into a channel of a run from outside
    Signal(signal::SignalArgs),
    /// Replay a run, or branch from one of its events
    Fork(fork::ForkArgs),
    /// Go on with runs that failed, from where they failed
    Retry(retry::RetryArgs),
    /// Keep a run whatever retention says, or release it
    Keep(keep::KeepArgs),
    /// Show which runs started a run
    Ancestry(ancestry::AncestryArgs),
}

pub(crate) async fn run(args: RunsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        RunsCommand::List(args) => list::run(args, earlier).await,
        RunsCommand::Show(args) => show::run(args, earlier).await,
        RunsCommand::Events(args) => events::run(args, earlier).await,
        RunsCommand::Diff(args) => diff::run(args, earlier).await,
        RunsCommand::Bundle(args) => bundle::run(args, earlier).await,
        RunsCommand::Report(args) => report::run(args, earlier).await,
        RunsCommand::Request(args) => request::run(args, earlier).await,
        RunsCommand::Cancel(args) => cancel::run(args, earlier).await,
        RunsCommand::Pause(args) => pause::run(args, earlier).await,
        RunsCommand::Resume(args) => resume::run(args, earlier).await,
        RunsCommand::Signal(args) => signal::run(args, earlier).await,
        RunsCommand::Fork(args) => fork::run(args, earlier).await,
        RunsCommand::Retry(args) => retry::run(args, earlier).await,
        RunsCommand::Keep(args) => keep::run(args, earlier).await,
        RunsCommand::Ancestry(args) => ancestry::run(args, earlier).await,
    }
}
