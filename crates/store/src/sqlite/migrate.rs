//! The schema's versions: which one a database has, and bringing it to ours with a copy made before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use refinery::Runner;
use rusqlite::{Connection, MAIN_DB, OptionalExtension};

use super::open::OpenError;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Our migrations, applied together or not at all.
pub(super) fn runner() -> Runner {
    embedded::migrations::runner().set_grouped(true)
}

pub(super) fn newest(runner: &Runner) -> i32 {
    runner.get_migrations().iter().map(refinery::Migration::version).max().unwrap_or(0)
}

/// The schema that a database has; zero before its first migration, none if it does not count any.
pub(super) fn schema(db: &Connection) -> Result<Option<i32>, rusqlite::Error> {
    let history: Option<i64> = db
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = 'refinery_schema_history'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    if history.is_none() {
        return Ok(None);
    }
    db.query_row("SELECT coalesce(max(version), 0) FROM refinery_schema_history", [], |row| {
        row.get(0)
    })
    .map(Some)
}

/// Copies a database aside before its schema changes, and answers where the copy is.
pub(super) fn back_up(db: &Connection, path: &Path, schema: i32) -> Result<PathBuf, OpenError> {
    let copy = path.with_extension(format!("v{schema}.backup.db"));
    let refuse = |why: String| OpenError::Backup { path: path.to_owned(), why };
    // Made aside and renamed, so that a file under the backup's name is always a whole one.
    let aside = copy.with_extension("new");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside);
    let file = file.map_err(|error| refuse(error.to_string()))?;
    db.backup(MAIN_DB, &aside, None::<fn(_)>).map_err(|error| refuse(error.to_string()))?;
    let moved =
        file.sync_all().and_then(|()| fs::rename(&aside, &copy)).and_then(|()| sync_folder(&copy));
    moved.map_err(|error| refuse(error.to_string()))?;
    tracing::info!(backup = %copy.display(), schema, "database copied before its migration");
    Ok(copy)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

pub(super) fn run(db: &mut Connection, path: &Path, runner: &Runner) -> Result<(), OpenError> {
    let known = newest(runner);
    let report = runner.run(db).map_err(|error| OpenError::Migration {
        path: path.to_owned(),
        to: known,
        why: error.to_string(),
    })?;
    if !report.applied_migrations().is_empty() {
        tracing::info!(schema = known, "database migrated");
    }
    Ok(())
}

/// Our migrations and one that the next version may bring.
#[cfg(test)]
pub(super) fn later_runner(sql: &str) -> anyhow::Result<Runner> {
    let mut migrations = runner().get_migrations().clone();
    let name = format!("V{}__later", newest(&runner()) + 1);
    migrations.push(refinery::Migration::unapplied(&name, sql)?);
    Ok(Runner::new(&migrations).set_grouped(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of today's schema with one row in it.
    fn of_today(path: &Path) -> anyhow::Result<Connection> {
        let mut db = Connection::open(path)?;
        run(&mut db, path, &runner())?;
        db.execute("INSERT INTO meta (name, value) VALUES ('kept', x'01')", [])?;
        Ok(db)
    }

    #[test]
    fn the_copy_holds_the_old_schema_and_every_row() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.db");
        let mut db = of_today(&path)?;
        let today = newest(&runner());
        let copy = back_up(&db, &path, today)?;
        run(&mut db, &path, &later_runner("CREATE TABLE later (id INTEGER PRIMARY KEY);")?)?;
        assert_eq!(schema(&db)?, Some(today + 1));
        let name = format!("callboard.v{today}.backup.db");
        assert_eq!(copy.file_name().and_then(|name| name.to_str()), Some(name.as_str()));
        let copied = Connection::open(copy)?;
        assert_eq!(schema(&copied)?, Some(today));
        let kept: i64 =
            copied
                .query_row("SELECT count(*) FROM meta WHERE name = 'kept'", [], |row| row.get(0))?;
        assert_eq!(kept, 1);
        Ok(())
    }

    #[test]
    fn a_migration_that_breaks_leaves_the_old_schema() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.db");
        let mut db = of_today(&path)?;
        let broken = run(
            &mut db,
            &path,
            &later_runner("CREATE TABLE later (id INTEGER); DROP TABLE nothing;")?,
        );
        let today = newest(&runner());
        let tried = today + 1;
        assert!(
            matches!(broken, Err(OpenError::Migration { to, .. }) if to == tried),
            "{broken:?}"
        );
        assert_eq!(schema(&db)?, Some(today));
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'later'", [], |row| {
                row.get(0)
            })?;
        assert_eq!(tables, 0);
        Ok(())
    }
}
