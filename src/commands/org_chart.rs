//! `callboard org-chart`: who stands where.

mod put;
mod show;

use clap::{Args, Subcommand};

use crate::args::Connection;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard org-chart show
  callboard org-chart show --json > chart.json
  callboard org-chart put chart.json

Where somebody stands allows nobody anything."
)]
pub(crate) struct OrgChartArgs {
    #[command(subcommand)]
    command: OrgChartCommand,
}

#[derive(Debug, Subcommand)]
enum OrgChartCommand {
    /// Show departments, members and whom they report to
    Show(show::ShowArgs),
    /// Draw the chart anew from a file
    Put(put::PutArgs),
}

pub(crate) async fn run(args: OrgChartArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        OrgChartCommand::Show(args) => show::run(args, earlier).await,
        OrgChartCommand::Put(args) => put::run(args, earlier).await,
    }
}
