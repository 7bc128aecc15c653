//! `callboard keys`: who may talk to the host.

mod create;
mod list;
mod revoke;
mod rotate;
mod rotate_links;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  callboard keys create --name ci --scope runs:create --scope runs:read
  callboard keys list
  callboard keys rotate key_0199f2c4

All of them need a key with the scope admin."
)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key; its text is shown once
    Create(create::CreateArgs),
    /// List the keys of this tenant, without their texts
    List(list::ListArgs),
    /// Take a key back at once
    Revoke(revoke::RevokeArgs),
    /// Replace a key by a new one with the same rights; the old one stops working at once
    Rotate(rotate::RotateArgs),
    /// Sign links to interrupts with a new secret
    RotateLinks(rotate_links::RotateLinksArgs),
}

pub(crate) async fn run(args: KeysArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    match args.command {
        KeysCommand::Create(args) => create::run(args, earlier).await,
        KeysCommand::List(args) => list::run(args, earlier).await,
        KeysCommand::Revoke(args) => revoke::run(args, earlier).await,
        KeysCommand::Rotate(args) => rotate::run(args, earlier).await,
        KeysCommand::RotateLinks(args) => rotate_links::run(args, earlier).await,
    }
}

/// Shows a new key. The text goes to standard output alone, so that it can be piped where it belongs.
fn show_new(made: &Value, as_json: bool) -> Result<Exit, CommandError> {
    if as_json {
        output::json(made)?;
        return Ok(Exit::Done);
    }
    let part = |name: &str| made.get(name).and_then(Value::as_str).unwrap_or_default();
    output::line(part("key"))?;
    output::note(&format!("key {} made; this is the only time its text is shown", part("id")));
    Ok(Exit::Done)
}
