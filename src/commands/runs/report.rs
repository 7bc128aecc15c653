//! `callboard runs report`: one run as one HTML file, to attach to an issue.

use clap::Args;
use serde_json::Value;

use callboard_console::{ReportSource, report};
use callboard_engine::{Clock as _, SystemClock};

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard runs report run_0199f2c4 > run.html

Story, waterfall, graph and log without a script. Text that looks like a credential is redacted;
read the rest before you send it to others.")]
pub(crate) struct ReportArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(mut args: ReportArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    args.run = client.whole_run_id(&args.run).await?;
    let bundle = client.bundle(&args.run).await?;
    let workflow = bundle.pointer("/run/workflowId").and_then(Value::as_str).unwrap_or_default();
    // A report is worth having without the picture: the workflow may be gone, or not for this key.
    let definition = client.workflow(workflow).await.ok();
    let definition = definition.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let told =
        ReportSource { bundle: &bundle, definition: definition.as_ref(), at: SystemClock.now() };
    output::text(&report(told))?;
    Ok(Exit::Done)
}
