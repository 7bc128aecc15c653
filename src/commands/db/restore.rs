//! `callboard db restore`: a data folder from an archive, whole or not at all.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tempfile::Builder;

use callboard_store::SqliteStore;

use super::backup::DATABASE;
use super::{DatabaseArgs, series};
use crate::archive::{self, Manifest};
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::wire::database::unopened;

const KEY: &str = "host.key";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db restore /backup/callboard-2026-01-31.tar --key /safe/host.key --data /var/lib/callboard
  callboard db restore /backup/callboard-2026-01-31.tar --check
  callboard db restore /backup --to 2026-01-31T12:00:00Z --key /safe/host.key

With --to, FILE is a folder of `callboard db backup --into`, and its newest archive of that time or
before is taken: what was written between that archive and the time is not in it.
The folder must be empty or not there yet. The archive is compared with its list of digests, the
database is read through, its schema must be known to this version, and the key must be the one
that it was sealed with; where one of these fails, nothing is left behind. Runs go on from the
archive's state: what ended or was sent after the backup may be done again.")]
pub(super) struct RestoreArgs {
    /// Archive that `callboard db backup` wrote, or with --to a folder of them
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// Take the newest archive of the folder that is not later than this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Copy of the host.key of the folder that was backed up
    #[arg(long, value_name = "FILE", required_unless_present_any = ["check", "without_key"])]
    key: Option<PathBuf>,
    /// Restore without the key; no host starts on the folder before host.key is put into it
    #[arg(long, conflicts_with = "key")]
    without_key: bool,
    /// Only say whether the archive could be restored
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &RestoreArgs) -> Result<Exit, CommandError> {
    let data = args.database.folder("restore a shared database with its own tools")?;
    if !args.check {
        refuse_full(&data)?;
    }
    let archive = match &args.to {
        Some(time) => series::at(&args.archive, time)?,
        None => args.archive.clone(),
    };
    let manifest = restore(args, &archive, &data)?;
    if args.json {
        let folder = (!args.check).then_some(&data);
        return output::document(&json!({ "data": folder, "manifest": manifest }));
    }
    let (runs, position) = (manifest.runs, manifest.position);
    let what = format!("{runs} runs, log up to {position}, of {}", manifest.created_at);
    if args.check {
        return output::done(&format!("{}: whole, {what}", archive.display()));
    }
    output::line(&format!("{}: {what}", data.display()))?;
    if args.without_key {
        output::hint(&format!(
            "put the key into {} before a host is started",
            data.join(KEY).display()
        ));
    }
    Ok(Exit::Done)
}

/// What is in a folder is somebody's.
fn refuse_full(data: &Path) -> Result<(), CommandError> {
    let shown = data.display();
    match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(CommandError::failed(format!("{shown} cannot be looked into: {error}"))),
        Ok(mut inside) => match inside.next() {
            None => Ok(()),
            Some(_) => Err(CommandError::failed(format!("{shown} is not empty")).hint(
                "restore into an empty folder, or one that is not there yet; move this one away",
            )),
        },
    }
}

/// Unpacked beside the folder and renamed: until then there is nothing under its name.
fn restore(args: &RestoreArgs, archive: &Path, data: &Path) -> Result<Manifest, CommandError> {
    let shown = archive.display();
    let refused = |why: &dyn std::fmt::Display| {
        CommandError::failed(format!("{shown} was not restored: {why}")).hint("nothing was changed")
    };
    let data = std::path::absolute(data).map_err(|error| refused(&error))?;
    let parent = data.parent().unwrap_or(Path::new("/"));
    if !args.check {
        fs::create_dir_all(parent).map_err(|error| refused(&error))?;
    }
    let beside = if args.check { std::env::temp_dir() } else { parent.to_owned() };
    let aside = Builder::new().prefix(".callboard-restore-").tempdir_in(beside);
    let aside = aside.map_err(|error| refused(&error))?;
    let manifest = archive::read(archive, Some(aside.path())).map_err(|error| refused(&error))?;
    let key = aside.path().join(KEY);
    if let Some(given) = &args.key {
        let kept = fs::copy(given, &key)
            .and_then(|_| fs::set_permissions(&key, fs::Permissions::from_mode(0o600)))
            .and_then(|()| File::open(&key)?.sync_all());
        kept.map_err(|error| refused(&format!("{}: {error}", given.display())))?;
    }
    let key = args.key.as_ref().map(|_| key.as_path());
    SqliteStore::look_through(&aside.path().join(DATABASE), key)
        .map_err(|error| CommandError { hint: unopened(&data, &error).hint, ..refused(&error) })?;
    if args.check {
        return Ok(manifest);
    }
    let moved = File::open(aside.path()).and_then(|folder| folder.sync_all()).and_then(|()| {
        // An empty folder gives way to it; one that has filled meanwhile does not.
        fs::rename(aside.path(), &data)
    });
    moved.map_err(|error| refused(&error))?;
    // It has another name now.
    let _ = aside.keep();
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(|error| refused(&error))?;
    Ok(manifest)
}
