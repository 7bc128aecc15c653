//! `callboard health`: whether a host can work, as one exit code.

use clap::Args;
use serde_json::json;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard health
  callboard health --url http://127.0.0.1:8787 --json

Needs no key. Exit codes: 0 the host is ready, 1 it lives and is not ready (its database does not
answer), 5 no host answers.")]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    host: HostArgs,
}

pub(crate) async fn run(args: HealthArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = args.host.client(earlier)?;
    let not_ready = match client.ready().await {
        Ok(()) => None,
        Err(error) if error.exit == Exit::Unreachable => return Err(error),
        Err(error) => Some(error.what),
    };
    match not_ready {
        None => args.host.show(&json!({ "status": "ready" }), "ready"),
        Some(why) if args.host.json => {
            output::json(&json!({ "status": "not ready", "why": why }))?;
            Ok(Exit::Failed)
        }
        Some(why) => Err(CommandError::failed(format!("not ready: {why}"))
            .hint("the log of the host says why; `callboard doctor` looks at its folder")),
    }
}
