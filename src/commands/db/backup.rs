//! `callboard db backup`: the database and the files of runs as one archive, also while a host serves from them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tempfile::{Builder, NamedTempFile};

use callboard_engine::{Clock as _, SystemClock};
use callboard_store::{Copied, SqliteStore};

use super::{DatabaseArgs, series};
use crate::archive::{self, ArchiveError, Manifest};
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::wire::database::unopened;

/// The database in an archive, and in a folder.
pub(super) const DATABASE: &str = "callboard.db";
/// The files of runs, in both.
const WORKSPACES: &str = "workspaces";
/// What a folder of a run may hold below itself; deeper ones are not made by tools.
pub(super) const DEEPEST: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db backup /backup/callboard-2026-01-31.tar
  callboard db backup --data /var/lib/callboard nightly.tar --json
  callboard db backup --data /var/lib/callboard --into /backup --keep 48

Works beside a host that serves: every write that was acknowledged before the command is in the
archive. It holds the database (with installed packs, files and sessions) and the files of runs, and
is read through before it gets its name. It does not hold host.key, without which sealed values
cannot be read: keep a copy of it apart from the archive. Folders of --workflows and --packs and
callboard.toml are yours to keep.")]
pub(super) struct BackupArgs {
    /// File to write, which must not exist yet
    #[arg(value_name = "FILE", required_unless_present = "into")]
    archive: Option<PathBuf>,
    /// Folder for an archive that is named by its time; `callboard db restore DIR --to TIME` finds it
    #[arg(long, value_name = "DIR", conflicts_with = "archive")]
    into: Option<PathBuf>,
    /// How many archives stay in that folder; older ones are removed once the new one is whole
    #[arg(long, value_name = "N", requires = "into", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &BackupArgs) -> Result<Exit, CommandError> {
    let data = args.database.folder("pg_dump makes a consistent copy of a shared database")?;
    let (beside, named) = match (&args.archive, &args.into) {
        (Some(archive), _) => (beside(archive), Some(archive.as_path())),
        (None, Some(folder)) => (series::made(folder)?, None),
        (None, None) => return Err(CommandError::usage("a file or --into is missing")),
    };
    if let Some(target) = named.filter(|target| target.exists()) {
        return Err(CommandError::failed(format!("{} exists already", target.display()))
            .hint("name another file; nothing is overwritten"));
    }
    let (manifest, target) = write(&data, beside, named)?;
    let target = target.as_path();
    if let (Some(folder), Some(keep)) = (&args.into, args.keep) {
        series::forget(folder, usize::try_from(keep).unwrap_or(usize::MAX))?;
    }
    let key = data.join("host.key");
    if args.json {
        let file = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        return output::document(&json!({ "file": file, "key": key, "manifest": manifest }));
    }
    output::line(&format!(
        "{}: {} runs, log up to {}, {} files, {:.1} MiB; read back and whole",
        target.display(),
        manifest.runs,
        manifest.position,
        manifest.files.len(),
        manifest.bytes() as f64 / f64::from(1 << 20),
    ))?;
    output::hint(&format!(
        "keep a copy of {} apart from it: without that key sealed values cannot be read",
        key.display()
    ));
    Ok(Exit::Done)
}

/// The folder that a file is in.
fn beside(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Made aside and renamed, so that a file under its name is always a whole one; what is left of a failure goes away.
/// Where no name is given, it is that of a moment after which nothing is in it.
fn write(
    data: &Path,
    beside: &Path,
    named: Option<&Path>,
) -> Result<(Manifest, PathBuf), CommandError> {
    let shown = named.unwrap_or(beside).display();
    let failed = |why: &dyn std::fmt::Display| {
        CommandError::failed(format!("the backup {shown} was not made: {why}"))
            .hint("nothing is left of it; make room, or choose another place")
    };
    let aside = Builder::new().prefix(".callboard-backup-").tempdir_in(beside);
    let aside = aside.map_err(|error| failed(&error))?;
    let copy = aside.path().join(DATABASE);
    let Copied { schema, runs, position } = SqliteStore::back_up(data, &copy)
        .map_err(|error| CommandError { hint: unopened(data, &error).hint, ..failed(&error) })?;
    let mut files = vec![(DATABASE.to_owned(), copy)];
    let workspaces = data.join(WORKSPACES);
    collect(&workspaces, WORKSPACES, 0, &mut files).map_err(|error| failed(&error))?;
    let mut archive = NamedTempFile::new_in(aside.path()).map_err(|error| failed(&error))?;
    let manifest = Manifest::new(SystemClock.now(), schema, runs, position);
    let written = archive::write(archive.as_file_mut(), &files, manifest);
    let manifest = written.map_err(|error| failed(&error))?;
    let read = archive::read(archive.path(), None).map_err(|error| failed(&error))?;
    if read != manifest {
        return Err(failed(&ArchiveError::Changed("it was written otherwise".to_owned())));
    }
    let target = named.map_or_else(|| series::name_in(beside, manifest.created_at), Path::to_owned);
    archive.persist_noclobber(&target).map_err(|error| failed(&error))?;
    let synced = fs::File::open(beside).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed(&error))?;
    Ok((manifest, target))
}

/// Plain files alone: a link could lead anywhere, and what vanishes meanwhile belonged to a run that ended.
fn collect(
    folder: &Path,
    name: &str,
    depth: usize,
    into: &mut Vec<(String, PathBuf)>,
) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut found = entries.collect::<Result<Vec<_>, _>>()?;
    found.sort_by_key(fs::DirEntry::file_name);
    for entry in found {
        let kind = entry.file_type()?;
        let Ok(own) = entry.file_name().into_string() else { continue };
        let name = format!("{name}/{own}");
        if kind.is_dir() && depth < DEEPEST {
            collect(&entry.path(), &name, depth + 1, into)?;
        } else if kind.is_file() {
            into.push((name, entry.path()));
        }
    }
    Ok(())
}
