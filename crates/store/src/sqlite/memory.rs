//! What tenants remember: rows of a journal, written with the appends that tell of them.

mod commitments;
mod find;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{
    Commitment, Crowd, Memory, MemoryQuery, MemoryRecord, MemoryRow, Scope, StoreError, next_expiry,
};
use callboard_protocol::{HeartbeatId, MemoryId, Remembered, RunId, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::files;
use super::read::visible;
use super::rows::{execute, millis, scope_params, signed};

#[cfg(test)]
pub(super) use commitments::DUE;
#[cfg(test)]
pub(super) use find::{CROWDED, Where, statement, text_statement};

/// How far the journal has come, as far as readers can see: moved after commits, never before.
#[derive(Debug, Clone, Default)]
pub(super) struct Position(Arc<AtomicU64>);

impl Position {
    pub(super) fn read(db: &Connection) -> Result<Self, rusqlite::Error> {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'memory'";
        let last: Option<i64> = db.query_row(sql, [], |row| row.get(0)).optional()?;
        let position = Self::default();
        position.reach(u64::try_from(last.unwrap_or(0)).unwrap_or(0));
        Ok(position)
    }

    pub(super) fn reach(&self, position: u64) {
        self.0.fetch_max(position, Ordering::AcqRel);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Whose a row is.
pub(super) struct Owner {
    tenant: String,
    workspace: Option<String>,
    test: bool,
}

impl From<Owner> for files::Owner {
    fn from(owner: Owner) -> Self {
        let Owner { tenant, workspace, test } = owner;
        Self { tenant, test, workspace: workspace.unwrap_or_default() }
    }
}

/// What a new version must know of the one before it.
struct Before {
    position: i64,
    version: i64,
    first: i64,
    created_at: i64,
    expires_at: Option<i64>,
}

#[async_trait]
impl Memory for SqliteStore {
    async fn memory_position(&self) -> Result<u64, StoreError> {
        Ok(self.memory.get())
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        let (scope, query) = (scope.clone(), query.clone());
        self.readers.read(move |db| find::recall(db, &scope, &query)).await
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.readers.read(move |db| find::history(db, &scope, &id)).await
    }

    async fn amend(&self, scope: &Scope, row: MemoryRow) -> Result<MemoryRecord, StoreError> {
        let (scope, position) = (scope.clone(), self.memory.clone());
        let write = move |db: &Connection, row: &MemoryRow| amend(db, &scope, row);
        let announce = move |_, record: MemoryRecord| {
            position.reach(record.position);
            record
        };
        self.writer.write_then(row, write, announce).await
    }

    async fn forget(&self, scope: &Scope, id: &MemoryId) -> Result<bool, StoreError> {
        let (scope, id) = (scope.clone(), id.clone());
        self.writer.write(move |db| forget(db, &scope, &id)).await
    }

    async fn expire_snapshot(&self, scope: &Scope, run: &RunId) -> Result<bool, StoreError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.writer.write(move |db| expire(db, &scope, &run)).await
    }

    async fn has_snapshot(&self, run: &RunId) -> Result<bool, StoreError> {
        let run = run.clone();
        self.readers.read(move |db| has_snapshot(db, &run)).await
    }

    async fn crowded(&self, most: u64) -> Result<Vec<Crowd>, StoreError> {
        self.readers.read(move |db| find::crowded(db, most)).await
    }

    async fn due_commitments(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Commitment>, StoreError> {
        self.readers.read(move |db| commitments::due(db, at, limit)).await
    }

    async fn commitments_come_due(
        &self,
        owner: &Scope,
        heartbeat: &HeartbeatId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (owner, heartbeat) = (owner.clone(), heartbeat.clone());
        self.writer.write(move |db| commitments::come_due(db, &owner, &heartbeat, at)).await
    }

    async fn settle_commitment(&self, commitment: &Commitment) -> Result<(), StoreError> {
        let position = signed(commitment.position);
        let sql = "DELETE FROM commitments WHERE position = ?1";
        let settle = move |db: &Connection| -> Result<(), Fault> {
            execute(db, sql, params![position])?;
            Ok(())
        };
        self.writer.write(settle).await
    }
}

/// Refuses rows that were decided on another version than the one that stands there.
pub(super) fn refuse_moved(db: &Connection, run: i64, rows: &[MemoryRow]) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let owner = owner_of(db, run)?;
    let mut written: BTreeMap<&MemoryId, i64> = BTreeMap::new();
    for row in rows {
        let version = match written.get(&row.id) {
            Some(version) => *version,
            None => before(db, &owner, &row.id)?.map_or(0, |before| before.version),
        };
        if version != signed(row.expected) {
            return Err(moved(&row.id));
        }
        written.insert(&row.id, version + 1);
        for absorbed in &row.absorbs {
            if !stands(db, &owner, absorbed)? {
                return Err(moved(&absorbed.id));
            }
        }
    }
    Ok(())
}

/// Whether a version is the newest of its entry, and nothing else has taken its place.
fn stands(db: &Connection, owner: &Owner, version: &Remembered) -> Result<bool, Fault> {
    let mut select = db.prepare_cached(
        "SELECT 1 FROM memory
         WHERE tenant = ?1 AND test = ?2 AND entry_id = ?3 AND version = ?4 AND superseded_by IS NULL",
    )?;
    let version = params![owner.tenant, owner.test, version.id.as_str(), signed(version.version)];
    Ok(select.exists(version)?)
}

/// Writes what a run remembers; answers the last position.
pub(super) fn write(db: &Connection, run: i64, rows: &[MemoryRow]) -> Result<u64, Fault> {
    let mut last = 0;
    if !rows.is_empty() {
        let owner = owner_of(db, run)?;
        for row in rows {
            last = insert(db, &owner, row)?;
        }
    }
    Ok(u64::try_from(last).unwrap_or(0))
}

pub(super) fn owner_of(db: &Connection, run: i64) -> Result<Owner, Fault> {
    let mut select = db.prepare_cached("SELECT tenant, workspace, test FROM runs WHERE id = ?1")?;
    Ok(select.query_row([run], |row| {
        Ok(Owner { tenant: row.get(0)?, workspace: row.get(1)?, test: row.get(2)? })
    })?)
}

fn before(db: &Connection, owner: &Owner, id: &MemoryId) -> Result<Option<Before>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT position, version, first, created_at, expires_at FROM memory
         WHERE tenant = ?1 AND test = ?2 AND entry_id = ?3 ORDER BY version DESC LIMIT 1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Before {
            position: row.get(0)?,
            version: row.get(1)?,
            first: row.get(2)?,
            created_at: row.get(3)?,
            expires_at: row.get(4)?,
        })
    };
    Ok(select.query_row(params![owner.tenant, owner.test, id.as_str()], read).optional()?)
}

/// Answers the row's position.
fn insert(db: &Connection, owner: &Owner, row: &MemoryRow) -> Result<i64, Fault> {
    let before = before(db, owner, &row.id)?;
    let time = Timestamp::from_millis;
    let expires_before = before.as_ref().and_then(|before| before.expires_at).map(time);
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| Fault::unreadable(format!("entry {}", row.id), error))
    };
    execute(
        db,
        "INSERT INTO memory (tenant, workspace, test, scope_id, memory_ref, entry_id, version, first, family,
             content, tags, created_at, written_at, expires_at, author, sources)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        params![
            owner.tenant,
            owner.workspace,
            owner.test,
            row.scope_id,
            row.memory_ref,
            row.id.as_str(),
            signed(row.expected) + 1,
            before.as_ref().map_or(0, |before| before.first),
            row.family.as_ref().map(|family| family.as_str()),
            row.content,
            json(serde_json::to_string(&row.tags))?,
            before.as_ref().map_or(row.at.as_millis(), |before| before.created_at),
            row.at.as_millis(),
            millis(next_expiry(expires_before, row.expires_at)),
            json(serde_json::to_string(&row.author))?,
            json(serde_json::to_string(&row.sources))?,
        ],
    )?;
    let position = db.last_insert_rowid();
    let first = before.as_ref().map_or(position, |before| before.first);
    supersede(db, owner, row, before.as_ref(), position)?;
    for tag in &row.tags {
        execute(
            db,
            "INSERT OR IGNORE INTO memory_tags (tenant, test, tag, first, position)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![owner.tenant, owner.test, tag, first, position],
        )?;
    }
    execute(
        db,
        "INSERT INTO memory_text (rowid, owner, content) VALUES (?1, ?2, ?3)",
        params![position, find::owner_word(&owner.tenant, owner.test), row.content],
    )?;
    Ok(position)
}

/// Puts a row in the place of the version before it and of whatever it absorbs.
fn supersede(
    db: &Connection,
    owner: &Owner,
    row: &MemoryRow,
    before: Option<&Before>,
    position: i64,
) -> Result<(), Fault> {
    match before {
        None => {
            let sql = "UPDATE memory SET first = position WHERE position = ?1";
            execute(db, sql, params![position])?;
        }
        Some(before) => {
            // What was absorbed and is written anew stays out of sight of those who began in between.
            execute(
                db,
                "UPDATE memory SET superseded_by = ?2 WHERE position = ?1 AND superseded_by IS NULL",
                params![before.position, position],
            )?;
            let sql = "DELETE FROM commitments WHERE position = ?1";
            execute(db, sql, params![before.position])?;
        }
    }
    if let Some(due) = &row.due {
        commitments::insert(db, position, due)?;
    }
    for absorbed in &row.absorbs {
        let version = signed(absorbed.version);
        execute(
            db,
            "UPDATE memory SET superseded_by = ?5
             WHERE tenant = ?1 AND test = ?2 AND entry_id = ?3 AND version = ?4",
            params![owner.tenant, owner.test, absorbed.id.as_str(), version, position],
        )?;
    }
    Ok(())
}

fn amend(db: &Connection, scope: &Scope, row: &MemoryRow) -> Result<MemoryRecord, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(
        "SELECT tenant, workspace, test, version FROM memory
         WHERE tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3) AND entry_id = ?4
         ORDER BY version DESC LIMIT 1",
    )?;
    let expected = signed(row.expected);
    let newest = select
        .query_row(params![tenant, test, workspace, row.id.as_str()], |found| {
            let owner =
                Owner { tenant: found.get(0)?, workspace: found.get(1)?, test: found.get(2)? };
            Ok((owner, found.get::<_, i64>(3)?))
        })
        .optional()?;
    let newest = newest.filter(|(_, version)| *version == expected);
    let (owner, _) = newest.ok_or_else(|| moved(&row.id))?;
    let position = insert(db, &owner, row)?;
    find::at(db, position)
}

fn moved(id: &MemoryId) -> Fault {
    StoreError::Moved { what: format!("entry {id}") }.into()
}

fn forget(db: &Connection, scope: &Scope, id: &MemoryId) -> Result<bool, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mine = "tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3) AND entry_id = ?4";
    let values = params![tenant, test, workspace, id.as_str()];
    let words = format!(
        "DELETE FROM memory_text WHERE rowid IN (SELECT position FROM memory WHERE {mine})"
    );
    execute(db, &words, values)?;
    Ok(execute(db, &format!("DELETE FROM memory WHERE {mine}"), values)? > 0)
}

fn expire(db: &Connection, scope: &Scope, run: &RunId) -> Result<bool, Fault> {
    let Some(found) = visible(db, scope, run)? else { return Ok(false) };
    execute(db, "UPDATE runs SET is_memory_expired = 1 WHERE id = ?1", params![found.id])?;
    Ok(true)
}

fn has_snapshot(db: &Connection, run: &RunId) -> Result<bool, Fault> {
    let mut select = db.prepare_cached("SELECT is_memory_expired FROM runs WHERE run_id = ?1")?;
    let is_expired: Option<bool> = select.query_row([run.as_str()], |row| row.get(0)).optional()?;
    Ok(is_expired == Some(false))
}
