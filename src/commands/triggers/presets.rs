//! `callboard triggers presets`: the senders that webhook subscriptions know.

use clap::Args;
use comfy_table::Cell;
use serde::Deserialize;

use crate::args::{Connection, HostArgs};
use crate::exit::{CommandError, Exit};
use crate::screen::listing::Listing;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard triggers presets")]
pub(super) struct PresetsArgs {
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Preset {
    name: String,
    proof: String,
    deduplicated_by: String,
    #[serde(default)]
    event: Option<String>,
}

pub(super) async fn presets(args: PresetsArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let found = args.host.client(earlier)?.trigger_presets().await?;
    Listing::new("presets", ["name", "proof", "taken once by", "event"], "no presets").show(
        found,
        args.host.json,
        |preset: Preset| {
            [
                Cell::new(preset.name),
                Cell::new(preset.proof),
                Cell::new(preset.deduplicated_by),
                Cell::new(preset.event.unwrap_or_default()),
            ]
        },
    )
}
