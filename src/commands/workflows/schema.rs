//! `callboard workflows schema`: what editors complete and check definitions with.

use callboard_authoring::editor_schema;
use clap::Args;

use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard workflows schema > workflow.schema.json

Editors that use the YAML language server then complete and check a file that begins with
  # yaml-language-server: $schema=workflow.schema.json")]
pub(super) struct SchemaArgs {}

pub(super) fn run() -> Result<Exit, CommandError> {
    output::json(&editor_schema())?;
    Ok(Exit::Done)
}
