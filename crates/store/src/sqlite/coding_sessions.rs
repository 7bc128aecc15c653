//! Session files of coding agents: sealed, and gone with their run.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{CodingSessions, StoreError};
use callboard_protocol::{RunId, Tenant};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::execute;

#[async_trait]
impl CodingSessions for SqliteStore {
    async fn keep_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
        files: String,
    ) -> Result<(), StoreError> {
        let sealed = self.seal.seal(&place(run, home), &files).map_err(|error| {
            StoreError::Unavailable(format!("a session of run {run} cannot be sealed: {error}"))
        })?;
        let key = (tenant.clone(), run.clone(), home.to_owned());
        self.writer.write(move |db| keep(db, &key.0, &key.1, &key.2, &sealed)).await
    }

    async fn kept_session(
        &self,
        tenant: &Tenant,
        run: &RunId,
        home: &str,
    ) -> Result<Option<String>, StoreError> {
        let key = (tenant.clone(), run.clone(), home.to_owned());
        let found = self.readers.read(move |db| find(db, &key.0, &key.1, &key.2)).await?;
        let opened = found.map(|sealed| self.seal.open(&place(run, home), &sealed)).transpose();
        opened.map_err(|error| StoreError::Unreadable {
            what: format!("a session of run {run}"),
            why: error.to_string(),
        })
    }

    async fn forget_sessions(&self) -> Result<usize, StoreError> {
        self.writer.write(forget).await
    }
}

/// Where the files stand, for their seal.
fn place(run: &RunId, home: &str) -> String {
    format!("coding-session/{run}/{home}")
}

fn keep(
    db: &Connection,
    tenant: &Tenant,
    run: &RunId,
    home: &str,
    sealed: &[u8],
) -> Result<(), Fault> {
    let sql = "INSERT INTO coding_sessions (run, home, sealed)
         SELECT id, ?3, ?4 FROM runs
         WHERE run_id = ?2 AND tenant = ?1 AND status NOT IN ('completed', 'failed', 'cancelled')
         ON CONFLICT (run, home) DO UPDATE SET sealed = excluded.sealed";
    execute(db, sql, params![tenant.as_str(), run.as_str(), home, sealed])?;
    Ok(())
}

fn find(
    db: &Connection,
    tenant: &Tenant,
    run: &RunId,
    home: &str,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT sealed FROM coding_sessions JOIN runs ON runs.id = coding_sessions.run
         WHERE run_id = ?2 AND tenant = ?1 AND home = ?3",
    )?;
    Ok(select.query_row([tenant.as_str(), run.as_str(), home], |row| row.get(0)).optional()?)
}

fn forget(db: &Connection) -> Result<usize, Fault> {
    let sql = "DELETE FROM coding_sessions WHERE run IN (
         SELECT run FROM coding_sessions JOIN runs ON runs.id = coding_sessions.run
         WHERE status IN ('completed', 'failed', 'cancelled'))";
    Ok(execute(db, sql, &[])?)
}
