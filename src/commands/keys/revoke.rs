//! `callboard keys revoke`: takes a key back at once, and says what it leaves behind.

use clap::Args;
use serde_json::Value;

use crate::args::Connection;
use crate::client::{Client, Made};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard keys revoke key_0199f2c4
  callboard keys revoke key_0199f2c4 --cascade

What the key made goes on: keys, schedules, triggers, heartbeats, webhooks and members, its own and those of keys that
it made. They are listed. With --cascade the keys are revoked, the webhooks removed and the rest paused.")]
pub(crate) struct RevokeArgs {
    /// Id of the key
    #[arg(value_name = "KEY_ID")]
    id: String,
    /// Stop what the key made, too
    #[arg(long)]
    cascade: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RevokeArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let client = Client::new(&args.connection.or(earlier))?;
    // Looked at before: a key may revoke itself.
    let made = client.key(&args.id).await?;
    let then = if args.cascade { Made::Stops } else { Made::GoesOn };
    client.revoke_key(&args.id, then).await?;
    output::line(&format!("{} revoked", args.id))?;
    let mut is_any = false;
    let verb = if args.cascade { "stopped" } else { "goes on" };
    for (kind, ids) in made.get("goesOn").and_then(Value::as_object).into_iter().flatten() {
        for id in ids.as_array().into_iter().flatten().filter_map(Value::as_str) {
            is_any = true;
            output::line(&format!("{verb}: {} {id}", kind.trim_end_matches('s')))?;
        }
    }
    if is_any && !args.cascade {
        output::hint(&format!("`callboard keys revoke {} --cascade` stops all of it", args.id));
    }
    Ok(Exit::Done)
}
