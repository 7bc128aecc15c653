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

    /// Our migrations up to one of them.
    fn runner_up_to(version: i32) -> Runner {
        let mut migrations = runner().get_migrations().clone();
        migrations.retain(|migration| migration.version() <= version);
        Runner::new(&migrations).set_grouped(true)
    }

    #[test]
    fn what_was_there_before_test_keys_had_their_own_is_live() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.db");
        let mut db = Connection::open(&path)?;
        run(&mut db, &path, &runner_up_to(35))?;
        db.execute_batch(
            "INSERT INTO roster (id, tenant, roster_id, version, entry, hired_at, updated_at)
                 VALUES (1, 'acme', 'host:a', 1, '{}', 0, 0);
             INSERT INTO work_items (member, work_id, version, item, waits_for, waits_test)
                 VALUES (1, 'w1', 1, '{}', '{}', 0), (1, 'w2', 1, '{}', '{}', 1);
             INSERT INTO org_charts VALUES ('acme', '', 3, '{}', 0);
             INSERT INTO secrets VALUES ('acme', 'openai', x'01', 0, 0);",
        )?;
        run(&mut db, &path, &runner())?;
        for count in [
            "SELECT count(*) FROM roster WHERE roster_id = 'host:a' AND NOT test",
            "SELECT count(*) FROM work_items WHERE work_id = 'w1' AND NOT waits_test",
            "SELECT count(*) FROM work_items WHERE work_id = 'w2' AND waits_test IS NULL",
            "SELECT count(*) FROM org_charts WHERE version = 3 AND NOT test",
            "SELECT count(*) FROM secrets WHERE name = 'openai' AND NOT test",
        ] {
            assert_eq!(db.query_row(count, [], |row| row.get::<_, i64>(0))?, 1, "{count}");
        }
        Ok(())
    }

    #[test]
    fn what_was_there_before_things_had_places_is_live_and_the_tenants() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.db");
        let mut db = Connection::open(&path)?;
        run(&mut db, &path, &runner_up_to(36))?;
        db.execute_batch(
            "INSERT INTO workflows VALUES ('acme', 'greet', '{}', 3, 0);
             INSERT INTO schedules (schedule_id, tenant, workspace, test, workflow_id, trigger_id, version, state,
                 sealed_inputs) VALUES ('t1', 'acme', 'ops', 0, 'greet', 'nightly', 1, '{}', x'01'),
                 ('s1', 'acme', 'lab', 0, 'greet', NULL, 1, '{}', x'01');
             INSERT INTO prompt_templates VALUES ('acme', 'ops', 'w', 0, '{}', 0);
             INSERT INTO secrets VALUES ('acme', 1, 'openai', x'01', 0, 0);
             INSERT INTO deployments VALUES ('acme', 'a', 2, '{}', 0);
             INSERT INTO packs VALUES (0, 'acme', 'p', '1.0.0', x'01', '{}', NULL, NULL, 0, 0, x'02');",
        )?;
        run(&mut db, &path, &runner())?;
        for count in [
            "SELECT count(*) FROM workflows WHERE workspace = '' AND NOT test AND version = 3",
            // Its declared schedule goes on where it is.
            "SELECT count(*) FROM workflows WHERE workspace = 'ops' AND NOT test",
            "SELECT count(*) - 1 FROM workflows",
            "SELECT count(*) FROM prompt_templates WHERE workspace = 'ops' AND NOT test",
            "SELECT count(*) FROM secrets WHERE workspace = '' AND test",
            "SELECT count(*) FROM deployments WHERE version = 2 AND NOT test",
            "SELECT count(*) FROM packs WHERE tenant = 'acme' AND NOT test",
        ] {
            assert_eq!(db.query_row(count, [], |row| row.get::<_, i64>(0))?, 1, "{count}");
        }
        Ok(())
    }

    #[test]
    fn questions_from_before_the_inbox_are_found_in_the_logs() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.db");
        let mut db = Connection::open(&path)?;
        run(&mut db, &path, &runner_up_to(3))?;
        db.execute_batch(
            r#"INSERT INTO runs (id, run_id, tenant, workspace, test, workflow_id, scope_id, engine_version, stamped_version,
                   created_at, updated_at, status, version, wake_at, holder, epoch, lease_until) VALUES
                   (1, 'r1', 'acme', NULL, 0, 'w', NULL, 1, 1, 0, 0, 'running', 9, NULL, NULL, 0, NULL),
                   (2, 'r2', 'acme', NULL, 0, 'w', NULL, 1, 1, 0, 0, 'cancelled', 9, NULL, NULL, 0, NULL);
               INSERT INTO definitions VALUES (1, 'd', '{"nodes":[
                   {"id":"open","config":{"profile":"openwop-interrupt-auth-required"}},{"id":"settled","config":{}}]}');
               INSERT INTO births VALUES (1, '{}', NULL, 1), (2, '{}', NULL, 1);
               INSERT INTO events (run, sequence, at, kind, node, payload) VALUES
                   (1, 1, 10, 'interrupt.requested', 'settled', '{"kind":"custom","key":"k0","data":{}}'),
                   (1, 2, 20, 'interrupt.requested', 'open',
                       '{"kind":"approval","key":"k1","data":{"title":"?"},"timeoutMs":5}'),
                   (1, 3, 30, 'interrupt.resolved', 'settled', '{}'),
                   (1, 4, 40, 'callboard.vote', 'open', '{"interruptId":"r1-2","voter":"ann","action":"accept"}'),
                   (2, 1, 10, 'interrupt.requested', 'open', '{"kind":"custom","key":"k2","data":{}}');"#,
        )?;
        run(&mut db, &path, &runner())?;
        let mut select = db.prepare(
            "SELECT interrupt_id || ' ' || key || ' ' || data || ' ' || expires_at || ' ' || requires_auth || votes
             FROM interrupts",
        )?;
        let found = select.query_map([], |row| row.get::<_, String>(0))?;
        assert_eq!(
            found.collect::<Result<Vec<_>, _>>()?,
            [r#"r1-2 k1 {"title":"?"} 25 1[{"voter":"ann","action":"accept"}]"#]
        );
        Ok(())
    }

    #[test]
    fn runs_from_before_the_list_of_agents_are_found_by_them() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.db");
        let mut db = Connection::open(&path)?;
        run(&mut db, &path, &runner_up_to(34))?;
        db.execute_batch(
            r#"INSERT INTO runs (id, run_id, tenant, test, workflow_id, engine_version, stamped_version, created_at,
                   updated_at, status, version, epoch) VALUES
                   (1, 'r1', 'acme', 0, 'w', 1, 1, 0, 0, 'completed', 9, 0),
                   (2, 'r2', 'acme', 0, 'w', 1, 1, 0, 0, 'completed', 9, 0);
               INSERT INTO definitions VALUES (1, 'd', '{"nodes":[]}');
               INSERT INTO births (run, record, definition) VALUES
                   (1, '{"agents":{"a":{"agentId":"x.y"},"b":{"agentId":"x.y"}},"attribution":{"agentId":"x.z"}}', 1),
                   (2, '{}', 1);"#,
        )?;
        run(&mut db, &path, &runner())?;
        let mut select = db.prepare("SELECT run || ' ' || agent FROM run_agents ORDER BY 1")?;
        let found = select.query_map([], |row| row.get::<_, String>(0))?;
        assert_eq!(found.collect::<Result<Vec<_>, _>>()?, ["1 x.y", "1 x.z"]);
        Ok(())
    }
}
