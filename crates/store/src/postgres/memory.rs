//! The memory of tenants: rows of a journal, written with the events about them.

mod find;

use std::collections::BTreeMap;

use callboard_engine::{MemoryRow, MemoryWrite, Realm, Scope, StoreError, next_expiry, words};
use callboard_protocol::{MemoryId, Remembered, hex};

use super::fault::Fault;
use super::gather::Question;
use super::rows::{is_test, millis, optional_time, signed, unsigned, value};
use super::session::Session;
use super::text::stored;
use crate::seal::Seal;

pub(super) use find::{crowded, history, recall};

/// How far a tenant's journal has come: moved with commits, in their order.
#[derive(Debug, Clone)]
pub(super) struct Position(pub(super) Realm);

impl Question for Position {
    type Answer = u64;
    const MOST: usize = 256;

    async fn read(
        session: &Session,
        _: &Seal,
        questions: &[Self],
    ) -> Result<Vec<Result<u64, Fault>>, Fault> {
        let sql = "SELECT given.n, position FROM unnest($1::text[], $2::boolean[]) WITH ORDINALITY AS given (tenant, test, n)
             JOIN memory_clocks USING (tenant, test)";
        let tenants: Vec<_> = questions.iter().map(|it| stored(it.0.tenant.as_str())).collect();
        let tests: Vec<bool> = questions.iter().map(|it| is_test(it.0.mode)).collect();
        let mut found: Vec<_> = questions.iter().map(|_| Ok(0)).collect();
        for row in session.rows(sql, &[&tenants, &tests]).await? {
            let place = usize::try_from(value::<i64>(&row, 0)? - 1).unwrap_or(usize::MAX);
            if let Some(found) = found.get_mut(place) {
                *found = unsigned(&row, 1);
            }
        }
        Ok(found)
    }
}

/// Takes the next position. Who takes one keeps others of the tenant from taking the next until the commit.
async fn next_position(session: &Session, owner: &Scope) -> Result<i64, Fault> {
    let sql = "INSERT INTO memory_clocks (tenant, test, position) VALUES ($1, $2, 1)
         ON CONFLICT (tenant, test) DO UPDATE SET position = memory_clocks.position + 1 RETURNING position";
    let tenant = stored(owner.tenant.as_str());
    let row = session.row(sql, &[&&*tenant, &is_test(owner.mode)]).await?;
    let missing = || Fault::unreadable("the clock of a memory", "it gave no position");
    value(&row.ok_or_else(missing)?, 0)
}

/// Holds the clocks of all whose entries are written, in one order.
async fn hold_clocks(session: &Session, writes: &[MemoryWrite]) -> Result<(), Fault> {
    let owners = writes.iter().filter_map(|write| match write {
        MemoryWrite::Entry { owner, .. } => Some(owner.realm()),
        MemoryWrite::Forget { .. } => None,
    });
    let realms: std::collections::BTreeSet<Realm> = owners.collect();
    for realm in realms {
        let sql = "INSERT INTO memory_clocks (tenant, test, position) VALUES ($1, $2, 0)
             ON CONFLICT (tenant, test) DO UPDATE SET position = memory_clocks.position";
        let tenant = stored(realm.tenant.as_str());
        session.execute(sql, &[&&*tenant, &is_test(realm.mode)]).await?;
    }
    Ok(())
}

/// What a new version must know of the one before it.
struct Before {
    position: i64,
    version: i64,
    first: i64,
    created_at: i64,
    expires_at: Option<callboard_protocol::Timestamp>,
}

/// Refuses rows that were decided on another version than the one that stands there, and keeps it standing.
pub(super) async fn check(session: &Session, writes: &[MemoryWrite]) -> Result<(), Fault> {
    hold_clocks(session, writes).await?;
    let mut written: BTreeMap<(&Scope, &MemoryId), i64> = BTreeMap::new();
    for write in writes {
        let MemoryWrite::Entry { owner, row } = write else { continue };
        let version = match written.get(&(owner, &row.id)) {
            Some(version) => *version,
            None => before(session, owner, &row.id).await?.map_or(0, |before| before.version),
        };
        if version != signed(row.expected) {
            return Err(moved(&row.id));
        }
        written.insert((owner, &row.id), version + 1);
        for absorbed in &row.absorbs {
            if !stands(session, owner, absorbed).await? {
                return Err(moved(&absorbed.id));
            }
        }
    }
    Ok(())
}

fn moved(id: &MemoryId) -> Fault {
    StoreError::Moved { what: format!("entry {id}") }.into()
}

/// Whether a version is the newest of its entry, and nothing else has taken its place.
async fn stands(session: &Session, owner: &Scope, version: &Remembered) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM memory
         WHERE tenant = $1 AND test = $2 AND entry_id = $3 AND version = $4 AND superseded_by IS NULL";
    let (tenant, id) = (stored(owner.tenant.as_str()), stored(version.id.as_str()));
    let (test, version) = (is_test(owner.mode), signed(version.version));
    Ok(session.row(sql, &[&&*tenant, &test, &&*id, &version]).await?.is_some())
}

pub(super) async fn apply(session: &Session, writes: &[MemoryWrite]) -> Result<(), Fault> {
    for write in writes {
        match write {
            MemoryWrite::Entry { owner, row } => insert(session, owner, row).await?,
            MemoryWrite::Forget { scope, id } => forget(session, scope, id).await?,
        }
    }
    Ok(())
}

async fn before(session: &Session, owner: &Scope, id: &MemoryId) -> Result<Option<Before>, Fault> {
    let sql = "SELECT position, version, first, created_at, expires_at FROM memory
         WHERE tenant = $1 AND test = $2 AND entry_id = $3 ORDER BY version DESC LIMIT 1";
    let (tenant, id) = (stored(owner.tenant.as_str()), stored(id.as_str()));
    let found = session.row(sql, &[&&*tenant, &is_test(owner.mode), &&*id]).await?;
    let Some(row) = found else { return Ok(None) };
    Ok(Some(Before {
        position: value(&row, 0)?,
        version: value(&row, 1)?,
        first: value(&row, 2)?,
        created_at: value(&row, 3)?,
        expires_at: optional_time(&row, 4)?,
    }))
}

async fn insert(session: &Session, owner: &Scope, row: &MemoryRow) -> Result<(), Fault> {
    let position = next_position(session, owner).await?;
    let before = before(session, owner, &row.id).await?;
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| Fault::unreadable(format!("entry {}", row.id), error))
    };
    let expires_at =
        next_expiry(before.as_ref().and_then(|before| before.expires_at), row.expires_at);
    let first = before.as_ref().map_or(position, |before| before.first);
    let created_at = before.as_ref().map_or(row.at.as_millis(), |before| before.created_at);
    let workspace = owner.workspace.as_ref().map(|workspace| stored(workspace.as_str()));
    let (tenant, test) = (stored(owner.tenant.as_str()), is_test(owner.mode));
    let mut said: Vec<String> = vec![owner_word(owner)];
    said.extend(words(&row.content));
    said.sort_unstable();
    said.dedup();
    let sql = "INSERT INTO memory (tenant, test, position, workspace, scope_id, memory_ref, entry_id, version, first,
             family, content, words, tags, created_at, written_at, expires_at, author, sources)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";
    session
        .execute(
            sql,
            &[
                &&*tenant,
                &test,
                &position,
                &workspace,
                &stored(&row.scope_id),
                &stored(&row.memory_ref),
                &stored(row.id.as_str()),
                &(signed(row.expected) + 1),
                &first,
                &row.family.as_ref().map(|family| stored(family.as_str())),
                &stored(&row.content),
                &said,
                &json(serde_json::to_string(&row.tags))?,
                &created_at,
                &row.at.as_millis(),
                &millis(expires_at),
                &json(serde_json::to_string(&row.author))?,
                &json(serde_json::to_string(&row.sources))?,
            ],
        )
        .await?;
    supersede(session, owner, row, before.as_ref(), position).await?;
    let tags: Vec<_> = row.tags.iter().map(|tag| stored(tag)).collect();
    let sql = "INSERT INTO memory_tags (tenant, test, tag, first, position)
         SELECT $1, $2, tag, $4, $5 FROM unnest($3::text[]) AS tag ON CONFLICT DO NOTHING";
    session.execute(sql, &[&&*tenant, &test, &tags, &first, &position]).await?;
    Ok(())
}

/// A word that stands for an owner: letters and digits alone, and no two owners share one.
fn owner_word(owner: &Scope) -> String {
    let mode = if is_test(owner.mode) { "test" } else { "live" };
    format!("{mode}{}", hex(owner.tenant.as_str()))
}

/// Puts a row in the place of the version before it and of whatever it absorbs.
async fn supersede(
    session: &Session,
    owner: &Scope,
    row: &MemoryRow,
    before: Option<&Before>,
    position: i64,
) -> Result<(), Fault> {
    let (tenant, test) = (stored(owner.tenant.as_str()), is_test(owner.mode));
    if let Some(before) = before {
        // What was absorbed and is written anew stays out of sight of those who began in between.
        let sql = "UPDATE memory SET superseded_by = $4
             WHERE tenant = $1 AND test = $2 AND position = $3 AND superseded_by IS NULL";
        session.execute(sql, &[&&*tenant, &test, &before.position, &position]).await?;
    }
    for absorbed in &row.absorbs {
        let sql = "UPDATE memory SET superseded_by = $5
             WHERE tenant = $1 AND test = $2 AND entry_id = $3 AND version = $4";
        let (id, version) = (stored(absorbed.id.as_str()), signed(absorbed.version));
        session.execute(sql, &[&&*tenant, &test, &&*id, &version, &position]).await?;
    }
    Ok(())
}

async fn forget(session: &Session, scope: &Scope, id: &MemoryId) -> Result<(), Fault> {
    let sql = "WITH gone AS (
             DELETE FROM memory WHERE tenant = $1 AND test = $2 AND ($3::text IS NULL OR workspace = $3) AND entry_id = $4
             RETURNING position)
         DELETE FROM memory_tags USING gone
         WHERE memory_tags.tenant = $1 AND memory_tags.test = $2 AND memory_tags.position = gone.position";
    let workspace = scope.workspace.as_ref().map(|workspace| stored(workspace.as_str()));
    let (tenant, id) = (stored(scope.tenant.as_str()), stored(id.as_str()));
    session.execute(sql, &[&&*tenant, &is_test(scope.mode), &workspace, &&*id]).await?;
    Ok(())
}
