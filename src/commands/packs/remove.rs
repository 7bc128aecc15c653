//! `callboard packs remove`: takes an installed version away.

use clap::Args;
use owo_colors::OwoColorize;

use crate::args::Connection;
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard packs remove vendor.acme.desk@0.1.0")]
pub(crate) struct RemoveArgs {
    /// Which version of which pack
    #[arg(value_name = "NAME@VERSION")]
    pack: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: RemoveArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let Some((name, version)) = args.pack.split_once('@') else {
        return Err(CommandError::usage(format!("{} names no version", args.pack))
            .hint("write it as NAME@VERSION; `callboard packs list` shows both"));
    };
    let client = args.connection.client(earlier)?;
    client.remove_pack(name, version).await?;
    output::done(&format!("{} {name} {version} removed", "✓".green()))
}
