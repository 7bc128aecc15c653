//! The memory of tenants: rows of a journal, written with the events about them.

mod find;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{MemoryRow, MemoryWrite, Scope, StoreError, next_expiry};
use callboard_protocol::{MemoryId, Remembered, Timestamp};

use super::fault::Fault;
use super::rows::{execute, millis, scope_params, signed};

#[cfg(test)]
pub(super) use find::{CROWDED, statement, text_statement};
pub(super) use find::{crowded, history, owner_word, recall};

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

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Whose a row is.
pub(super) struct Owner {
    tenant: String,
    workspace: Option<String>,
    test: bool,
}

impl From<&Scope> for Owner {
    fn from(scope: &Scope) -> Self {
        let (tenant, test, workspace) = scope_params(scope);
        Self { tenant: tenant.to_owned(), workspace: workspace.map(str::to_owned), test }
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

/// Refuses rows that were decided on another version than the one that stands there.
pub(super) fn check(db: &Connection, writes: &[MemoryWrite]) -> Result<(), Fault> {
    let mut written: BTreeMap<(&Scope, &MemoryId), i64> = BTreeMap::new();
    for write in writes {
        let MemoryWrite::Entry { owner: scope, row } = write else { continue };
        let owner = Owner::from(scope);
        let version = match written.get(&(scope, &row.id)) {
            Some(version) => *version,
            None => before(db, &owner, &row.id)?.map_or(0, |before| before.version),
        };
        if version != signed(row.expected) {
            return Err(moved(&row.id));
        }
        written.insert((scope, &row.id), version + 1);
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

/// Answers the last position that was written; zero where none was.
pub(super) fn apply(db: &Connection, writes: &[MemoryWrite]) -> Result<u64, Fault> {
    let mut last = 0;
    for write in writes {
        match write {
            MemoryWrite::Entry { owner, row } => last = insert(db, &owner.into(), row)?,
            MemoryWrite::Forget { scope, id } => forget(db, scope, id)?,
        }
    }
    Ok(u64::try_from(last).unwrap_or(0))
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
        }
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

fn moved(id: &MemoryId) -> Fault {
    StoreError::Moved { what: format!("entry {id}") }.into()
}

fn forget(db: &Connection, scope: &Scope, id: &MemoryId) -> Result<(), Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mine = "tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3) AND entry_id = ?4";
    let values = params![tenant, test, workspace, id.as_str()];
    let words = format!(
        "DELETE FROM memory_text WHERE rowid IN (SELECT position FROM memory WHERE {mine})"
    );
    execute(db, &words, values)?;
    execute(db, &format!("DELETE FROM memory WHERE {mine}"), values)?;
    Ok(())
}
