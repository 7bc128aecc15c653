//! `callboard workflows graph`: a picture of a definition.

use callboard_authoring::{mermaid, svg, terminal};
use callboard_protocol::WorkflowDefinition;
use clap::{Args, ValueEnum};

use super::show::canonical;
use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard workflows graph letters.yaml
  callboard workflows graph nightly-report --format svg > nightly-report.svg")]
pub(super) struct GraphArgs {
    /// A file, or the id of a workflow of the host
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// How it is drawn
    #[arg(long, value_enum, default_value_t = Picture::Terminal)]
    format: Picture,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Picture {
    /// A tree of lines
    Terminal,
    /// Text that Mermaid draws, as on a page of Markdown
    Mermaid,
    /// A picture for browsers
    Svg,
}

pub(super) async fn run(args: GraphArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let text = canonical(&args.workflow, || args.connection.client(earlier)).await?;
    let definition = WorkflowDefinition::parse(text.as_bytes())
        .map_err(|error| CommandError::failed(format!("{}: {error}", args.workflow)))?;
    output::text(&match args.format {
        Picture::Terminal => terminal(&definition),
        Picture::Mermaid => mermaid(&definition),
        Picture::Svg => svg(&definition),
    })?;
    Ok(Exit::Done)
}
