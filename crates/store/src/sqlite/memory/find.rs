//! Queries of memory, by the index that fits each.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use callboard_engine::{
    CONVERSATIONS, CrowdedMemory, KeyMode, MemoryQuery, MemoryRecord, MemorySeen, Scope, words,
};
use callboard_protocol::{MemoryId, Remembered, hex};

use crate::recall::{Recall, Where};
use crate::sqlite::fault::Fault;
use crate::sqlite::rows::{optional_time, scope_params, signed, time, unsigned};

/// The columns that `record` reads, in its order.
const COLUMNS: &str = "memory.entry_id, memory.scope_id, memory.memory_ref, memory.content, memory.tags, \
     memory.created_at, memory.expires_at, memory.version, memory.written_at, memory.author, memory.sources, \
     memory.family, memory.position, memory.first, memory.superseded_by, memory.tenant, memory.workspace, \
     memory.test";

pub(in crate::sqlite) fn recall(
    db: &Connection,
    scope: &Scope,
    query: &MemoryQuery,
) -> Result<Vec<MemoryRecord>, Fault> {
    let mut own = Vec::new();
    for named in query.seen.iter().flat_map(|seen| &seen.view.also) {
        own.extend(version(db, scope, named)?);
    }
    let recall = Recall::new(query, own);
    let mut found = Vec::new();
    for place in Where::all(&query.place) {
        let stated = match &query.text {
            Some(text) => text_statement(scope, &recall.query, &place, text),
            None => Some(statement(scope, &recall.query, &place)),
        };
        let Some((sql, values)) = stated else { continue };
        found.extend(read(db, &sql, values)?);
    }
    Ok(recall.answer(found))
}

/// A read in SQL, and its values. Only the conditions that are asked for are there, so that SQLite can choose an
/// index by them.
pub(in crate::sqlite) fn statement(
    scope: &Scope,
    query: &MemoryQuery,
    place: &Where<'_>,
) -> (String, Vec<Value>) {
    let mut filter = Conditions::default();
    let (tenant, test, _) = scope_params(scope);
    // The table that leads the way has the order of the answer.
    let (from, leads) = match &query.tag {
        Some(tag) => {
            filter.also("memory_tags.tenant = ?", [tenant.to_owned().into()]);
            filter.also("memory_tags.test = ?", [test.into()]);
            filter.also("memory_tags.tag = ?", [tag.clone().into()]);
            let joined = "memory_tags CROSS JOIN memory ON memory.position = memory_tags.position";
            (joined, "memory_tags")
        }
        // One entry is found by its name. The sign keeps SQLite from going through a whole place in its order.
        None if query.id.is_some() => ("memory", "+memory"),
        None => ("memory", "memory"),
    };
    filter.visible(scope, query, place);
    if let Some(before) = query.before {
        filter.also(&format!("{leads}.first < ?"), [signed(before).into()]);
    }
    if let Some(seen) = &query.seen {
        filter.also(&format!("{leads}.first <= ?"), [signed(seen.view.as_of).into()]);
    }
    let order = format!("ORDER BY {leads}.first DESC");
    filter.finish(from, &order, query)
}

/// The same for a text; none where it has no words.
pub(in crate::sqlite) fn text_statement(
    scope: &Scope,
    query: &MemoryQuery,
    place: &Where<'_>,
    text: &str,
) -> Option<(String, Vec<Value>)> {
    let asked: Vec<String> = words(text).map(|word| format!("\"{word}\"")).collect();
    if asked.is_empty() {
        return None;
    }
    let (tenant, test, _) = scope_params(scope);
    let wanted =
        format!("owner : {} AND content : ({})", owner_word(tenant, test), asked.join(" AND "));
    let mut filter = Conditions::default();
    filter.also("memory_text MATCH ?", [wanted.into()]);
    filter.visible(scope, query, place);
    if let Some(before) = query.before {
        filter.also("memory_text.rowid < ?", [signed(before).into()]);
    }
    if let Some(tag) = &query.tag {
        let has = "EXISTS (SELECT 1 FROM memory_tags WHERE memory_tags.position = memory.position AND tag = ?)";
        filter.also(has, [tag.clone().into()]);
    }
    let from = "memory_text CROSS JOIN memory ON memory.position = memory_text.rowid";
    Some(filter.finish(from, "ORDER BY memory_text.rowid DESC", query))
}

/// A word that stands for an owner: letters and digits alone, and no two owners share one.
pub(in super::super) fn owner_word(tenant: &str, test: bool) -> String {
    format!("{}{}", if test { "test" } else { "live" }, hex(tenant))
}

#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn also<const N: usize>(&mut self, condition: &str, values: [Value; N]) {
        if !self.sql.is_empty() {
            self.sql.push_str(" AND ");
        }
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    /// The entries that exist for the reader at that position and time.
    fn visible(&mut self, scope: &Scope, query: &MemoryQuery, place: &Where<'_>) {
        let (tenant, test, workspace) = scope_params(scope);
        self.also("memory.tenant = ?", [tenant.to_owned().into()]);
        self.also("memory.test = ?", [test.into()]);
        if let Some(workspace) = workspace {
            self.also("memory.workspace = ?", [workspace.to_owned().into()]);
        }
        let sign = if query.id.is_some() { "+" } else { "" };
        for (column, name) in place.columns() {
            self.also(&format!("{sign}memory.{column} = ?"), [name.to_owned().into()]);
        }
        if let Some(id) = &query.id {
            self.also("memory.entry_id = ?", [id.to_string().into()]);
        }
        let lives = "(memory.expires_at IS NULL OR memory.expires_at > ?)";
        self.also(lives, [query.earliest().as_millis().into()]);
        match &query.seen {
            None => self.also("memory.superseded_by IS NULL", []),
            Some(seen) => self.seen(seen),
        }
    }

    /// A version is visible if it existed and the family did not write it; unless a later one is visible, too.
    fn seen(&mut self, seen: &MemorySeen) {
        let as_of = signed(seen.view.as_of);
        let family = seen.family.as_ref().map_or("", |family| family.as_str());
        self.also("memory.position <= ?", [as_of.into()]);
        self.also("memory.family IS NOT ?", [family.to_owned().into()]);
        self.also(
            "(memory.superseded_by IS NULL OR memory.superseded_by > ? OR EXISTS (
                 SELECT 1 FROM memory AS later
                 WHERE later.position = memory.superseded_by AND later.family IS ?))",
            [as_of.into(), family.to_owned().into()],
        );
    }

    fn finish(mut self, from: &str, order: &str, query: &MemoryQuery) -> (String, Vec<Value>) {
        // Entries that a run has written anew may stand in for some of these.
        let overlaid = query.seen.as_ref().map_or(0, |seen| seen.view.also.len());
        self.values.push(signed((query.limit + overlaid) as u64).into());
        let sql = format!("SELECT {COLUMNS} FROM {from} WHERE {} {order} LIMIT ?", self.sql);
        (sql, self.values)
    }
}

pub(in crate::sqlite) fn history(
    db: &Connection,
    scope: &Scope,
    id: &MemoryId,
) -> Result<Vec<MemoryRecord>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = format!(
        "SELECT {COLUMNS} FROM memory
         WHERE tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3) AND entry_id = ?4
         ORDER BY version DESC"
    );
    let workspace = workspace.map(str::to_owned);
    let values = [tenant.to_owned().into(), test.into(), workspace.into(), id.to_string().into()];
    read(db, &sql, values.into())
}

/// Read from an index of its own, in which what has been superseded does not stand.
pub(in crate::sqlite) const CROWDED: &str =
    "SELECT tenant, workspace, test, scope_id, memory_ref, MAX(position) FROM memory
     WHERE superseded_by IS NULL AND expires_at IS NULL AND memory_ref NOT LIKE ?2
     GROUP BY tenant, test, workspace, scope_id, memory_ref HAVING COUNT(*) > ?1";

pub(in crate::sqlite) fn crowded(db: &Connection, most: u64) -> Result<Vec<CrowdedMemory>, Fault> {
    let mut select = db.prepare_cached(CROWDED)?;
    let read = |row: &Row<'_>| -> Result<CrowdedMemory, Fault> {
        let (tenant, workspace): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let mode = KeyMode::of(row.get(2)?);
        Ok(CrowdedMemory {
            owner: Scope { tenant: tenant.into(), workspace: workspace.map(Into::into), mode },
            scope_id: row.get(3)?,
            memory_ref: row.get(4)?,
            newest: unsigned(row, 5)?,
        })
    };
    let mut rows = select.query(params![signed(most), format!("{CONVERSATIONS}%")])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn version(
    db: &Connection,
    scope: &Scope,
    named: &Remembered,
) -> Result<Option<MemoryRecord>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = format!(
        "SELECT {COLUMNS} FROM memory
         WHERE tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3) AND entry_id = ?4 AND version = ?5"
    );
    let mut select = db.prepare_cached(&sql)?;
    let version = signed(named.version);
    let mut rows = select.query(params![tenant, test, workspace, named.id.as_str(), version])?;
    rows.next()?.map(record).transpose()
}

fn read(db: &Connection, sql: &str, values: Vec<Value>) -> Result<Vec<MemoryRecord>, Fault> {
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record(row)?);
    }
    Ok(found)
}

fn record(row: &Row<'_>) -> Result<MemoryRecord, Fault> {
    let id: String = row.get(0)?;
    let unreadable = |error: serde_json::Error| Fault::unreadable(format!("entry {id}"), error);
    let (tags, author, sources): (String, String, String) =
        (row.get(4)?, row.get(9)?, row.get(10)?);
    let version = unsigned(row, 7)?;
    Ok(MemoryRecord {
        scope_id: row.get(1)?,
        memory_ref: row.get(2)?,
        content: row.get(3)?,
        tags: serde_json::from_str(&tags).map_err(unreadable)?,
        created_at: time(row, 5)?,
        expires_at: optional_time(row, 6)?,
        version,
        previous_version: (version > 1).then(|| version - 1),
        written_at: time(row, 8)?,
        author: serde_json::from_str(&author).map_err(unreadable)?,
        sources: serde_json::from_str(&sources).map_err(unreadable)?,
        family: row.get::<_, Option<String>>(11)?.map(Into::into),
        position: unsigned(row, 12)?,
        first: unsigned(row, 13)?,
        superseded_by: row.get::<_, Option<i64>>(14)?.and_then(|at| u64::try_from(at).ok()),
        owner: Scope {
            tenant: row.get::<_, String>(15)?.into(),
            workspace: row.get::<_, Option<String>>(16)?.map(Into::into),
            mode: KeyMode::of(row.get(17)?),
        },
        id: id.as_str().into(),
    })
}
