//! `callboard packs new`: a first pack, good enough to pack as it is.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use owo_colors::OwoColorize;
use serde_json::json;

use callboard_agents::scaffold;
use callboard_protocol::PackName;

use crate::exit::{CommandError, Exit};
use crate::screen::output;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  callboard packs new vendor.acme.desk --dir desk

Names begin with vendor., community. or private.; core. belongs to the protocol.")]
pub(crate) struct NewArgs {
    /// Name of the pack, the prefix of its agents' ids
    #[arg(value_name = "NAME")]
    name: PackName,
    /// Folder to create; it must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &NewArgs) -> Result<Exit, CommandError> {
    let folder = args.dir.display();
    let taken = fs::read_dir(&args.dir).is_ok_and(|mut entries| entries.next().is_some());
    if taken || args.dir.is_file() {
        return Err(CommandError::usage(format!("{folder} is not empty"))
            .hint("name a folder that does not exist yet"));
    }
    let mut files = Vec::new();
    for (path, text) in scaffold(&args.name) {
        let path = args.dir.join(path);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text)).map_err(|error| {
            CommandError::failed(format!("cannot write {}: {error}", path.display()))
        })?;
        files.push(path.display().to_string());
    }
    if args.json {
        output::json(&json!({ "name": args.name, "files": files }))?;
        return Ok(Exit::Done);
    }
    for file in files {
        output::line(&format!("{} {file}", "✓".green()))?;
    }
    output::hint(&format!(
        "edit the prompt and try it: `callboard serve --packs {folder}`; \
         `callboard packs pack {folder} --out {}.tgz` makes it ready to install",
        args.name.as_str().rsplit('.').next().unwrap_or("pack")
    ));
    Ok(Exit::Done)
}
