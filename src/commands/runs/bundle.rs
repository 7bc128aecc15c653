//! `callboard runs bundle`: exports one run, to give to others.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard runs bundle run_0199f2c4 --out run.json
  callboard runs bundle run_0199f2c4 | jq '.events[].type'

Text that looks like a credential is redacted; read the rest before you send it to others.")]
pub(crate) struct BundleArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    run: String,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON; a bundle always is
    #[arg(long, conflicts_with = "out")]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(mut args: BundleArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.connection.client(earlier)?;
    args.run = client.whole_run_id(&args.run).await?;
    let bundle = client.bundle(&args.run).await?;
    let Some(path) = args.out.filter(|_| !args.json) else {
        output::json(&bundle)?;
        return Ok(Exit::Done);
    };
    let text = serde_json::to_string_pretty(&bundle).unwrap_or_default();
    std::fs::write(&path, text).map_err(|error| {
        CommandError::failed(format!("cannot write {}: {error}", path.display()))
    })?;
    let count = |part: &str| bundle.get(part).and_then(Value::as_array).map_or(0, Vec::len);
    output::line(&format!(
        "wrote {}: {} events, {} spans, {} annotations",
        path.display(),
        count("events"),
        count("spans"),
        count("annotations")
    ))?;
    if bundle.get("truncated") == Some(&Value::Bool(true)) {
        output::hint(
            "the run is too large for one bundle: `callboard runs events` has every event",
        );
    }
    Ok(Exit::Done)
}
