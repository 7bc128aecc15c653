//! `callboard packs pack`: an archive of a pack's folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::json;

use callboard_agents::{Limits, Pack, collect};

use super::{not_made, refused};
use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard packs pack desk --out desk.tgz

Hidden files, node_modules and lockfiles are left out; links are refused. The archive is checked
before it is written.")]
pub(crate) struct PackArgs {
    /// Folder with pack.json in it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Archive to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &PackArgs) -> Result<Exit, CommandError> {
    let archive: Arc<[u8]> = collect(&args.folder).map_err(|error| not_made(&error))?.into();
    let pack = Pack::read(archive.clone(), &Limits::default()).map_err(|error| refused(&error))?;
    let out = args.out.display();
    fs::write(&args.out, &archive)
        .map_err(|error| CommandError::failed(format!("cannot write {out}: {error}")))?;
    let agents: Vec<&str> = pack.agents.iter().map(|agent| agent.id().as_str()).collect();
    if args.json {
        output::json(&json!({
            "name": pack.name(), "version": pack.version(), "archive": args.out,
            "files": pack.digests.len(), "agents": agents, "integrity": pack.integrity.as_str(),
        }))?;
        return Ok(Exit::Done);
    }
    output::line(&format!("{} {} {} in {out}", "✓".green(), pack.name(), pack.version()))?;
    output::field("files", &pack.digests.len().to_string())?;
    output::field("agents", &agents.join(", "))?;
    output::field("integrity", pack.integrity.as_str())?;
    Ok(Exit::Done)
}
