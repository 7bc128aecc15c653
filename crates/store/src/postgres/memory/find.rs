//! Queries of memory, by the index that fits each.

use tokio_postgres::Row;

use callboard_engine::{
    CONVERSATIONS, CrowdedMemory, MemoryQuery, MemoryRecord, MemorySeen, Scope, words,
};
use callboard_protocol::{MemoryId, Remembered};

use super::owner_word;
use crate::postgres::fault::Fault;
use crate::postgres::rows::{
    Statement, limit, name, optional_name, optional_time, place, signed, time, unsigned, value,
};
use crate::postgres::session::Session;
use crate::recall::{Recall, Where};

/// The columns that `record` reads, in its order.
const COLUMNS: &str = "SELECT memory.entry_id, memory.scope_id, memory.memory_ref, memory.content, memory.tags,
     memory.created_at, memory.expires_at, memory.version, memory.written_at, memory.author, memory.sources,
     memory.family, memory.position, memory.first, memory.superseded_by, memory.tenant, memory.test, memory.workspace";

pub(in crate::postgres) async fn recall(
    session: &Session,
    scope: &Scope,
    query: &MemoryQuery,
) -> Result<Vec<MemoryRecord>, Fault> {
    let mut own = Vec::new();
    for named in query.seen.iter().flat_map(|seen| &seen.view.also) {
        own.extend(read(session, &version(scope, named)).await?);
    }
    let recall = Recall::new(query, own);
    let mut found = Vec::new();
    for place in Where::all(&query.place) {
        let stated = match &query.text {
            Some(text) => text_statement(scope, &recall.query, &place, text),
            None => Some(statement(scope, &recall.query, &place)),
        };
        if let Some(stated) = stated {
            found.extend(read(session, &stated).await?);
        }
    }
    Ok(recall.answer(found))
}

/// A read in the order of the table that leads.
pub(in crate::postgres) fn statement(
    scope: &Scope,
    query: &MemoryQuery,
    place: &Where<'_>,
) -> Statement {
    let mut statement = Statement::default();
    statement.push(COLUMNS);
    let leads = match &query.tag {
        Some(tag) => {
            statement.push(
                " FROM memory_tags JOIN memory ON memory.tenant = memory_tags.tenant
                     AND memory.test = memory_tags.test AND memory.position = memory_tags.position
                 WHERE ",
            );
            statement.visible("memory_tags", &Scope { workspace: None, ..scope.clone() });
            statement.bind_name(" AND memory_tags.tag = ", tag);
            statement.push(" AND ");
            "memory_tags"
        }
        None => {
            statement.push(" FROM memory WHERE ");
            "memory"
        }
    };
    visible(&mut statement, scope, query, place);
    if let Some(before) = query.before {
        statement.bind(&format!(" AND {leads}.first < "), signed(before));
    }
    if let Some(seen) = &query.seen {
        statement.bind(&format!(" AND {leads}.first <= "), signed(seen.view.as_of));
    }
    finish(statement, &format!(" ORDER BY {leads}.first DESC LIMIT "), query)
}

/// The same for a text; none where it has no words.
pub(in crate::postgres) fn text_statement(
    scope: &Scope,
    query: &MemoryQuery,
    place: &Where<'_>,
    text: &str,
) -> Option<Statement> {
    let mut asked: Vec<String> = words(text).collect();
    if asked.is_empty() {
        return None;
    }
    asked.push(owner_word(scope));
    let mut statement = Statement::default();
    statement.push(COLUMNS);
    statement.bind(" FROM memory WHERE memory.words @> ", asked);
    statement.push(" AND ");
    visible(&mut statement, scope, query, place);
    if let Some(before) = query.before {
        statement.bind(" AND memory.position < ", signed(before));
    }
    if let Some(tag) = &query.tag {
        statement.bind_name(
            " AND EXISTS (SELECT 1 FROM memory_tags AS tags WHERE tags.tenant = memory.tenant
                 AND tags.test = memory.test AND tags.position = memory.position AND tags.tag = ",
            tag,
        );
        statement.push(")");
    }
    Some(finish(statement, " ORDER BY memory.position DESC LIMIT ", query))
}

/// The entries that exist for the reader at that position and time.
fn visible(statement: &mut Statement, scope: &Scope, query: &MemoryQuery, place: &Where<'_>) {
    statement.visible("memory", scope);
    for (column, name) in place.columns() {
        statement.bind_name(&format!(" AND memory.{column} = "), name);
    }
    statement.bind_some(" AND memory.entry_id = ", query.id.as_ref().map(|id| id.as_str()));
    let earliest = query.earliest().as_millis();
    statement.bind(" AND (memory.expires_at IS NULL OR memory.expires_at > ", earliest);
    statement.push(")");
    match &query.seen {
        None => statement.push(" AND memory.superseded_by IS NULL"),
        Some(seen) => seen_by(statement, seen),
    }
}

/// A version is visible if it existed and the family did not write it; unless a later one is visible, too.
fn seen_by(statement: &mut Statement, seen: &MemorySeen) {
    let as_of = signed(seen.view.as_of);
    let family = seen.family.as_ref().map_or("", |family| family.as_str());
    statement.bind(" AND memory.position <= ", as_of);
    statement.bind_name(" AND memory.family IS DISTINCT FROM ", family);
    statement.bind(" AND (memory.superseded_by IS NULL OR memory.superseded_by > ", as_of);
    statement.bind_name(
        " OR EXISTS (SELECT 1 FROM memory AS later WHERE later.tenant = memory.tenant
             AND later.test = memory.test AND later.position = memory.superseded_by AND later.family = ",
        family,
    );
    statement.push("))");
}

fn finish(mut statement: Statement, order: &str, query: &MemoryQuery) -> Statement {
    // Entries that a run has written anew may stand in for some of these.
    let overlaid = query.seen.as_ref().map_or(0, |seen| seen.view.also.len());
    statement.bind(order, limit(query.limit.saturating_add(overlaid)));
    statement
}

fn entry(scope: &Scope, id: &MemoryId) -> Statement {
    let mut statement = Statement::default();
    statement.push(COLUMNS);
    statement.push(" FROM memory WHERE ");
    statement.visible("memory", scope);
    statement.bind_name(" AND memory.entry_id = ", id.as_str());
    statement
}

fn version(scope: &Scope, named: &Remembered) -> Statement {
    let mut statement = entry(scope, &named.id);
    statement.bind(" AND memory.version = ", signed(named.version));
    statement
}

pub(in crate::postgres) async fn history(
    session: &Session,
    scope: &Scope,
    id: &MemoryId,
) -> Result<Vec<MemoryRecord>, Fault> {
    let mut statement = entry(scope, id);
    statement.push(" ORDER BY memory.version DESC");
    read(session, &statement).await
}

/// Read from an index of its own, in which what has been superseded does not stand.
pub(in crate::postgres) const CROWDED: &str =
    "SELECT tenant, test, workspace, scope_id, memory_ref, max(position) FROM memory
     WHERE superseded_by IS NULL AND expires_at IS NULL AND NOT starts_with(memory_ref, $2)
     GROUP BY tenant, test, workspace, scope_id, memory_ref HAVING count(*) > $1
     ORDER BY tenant, test, workspace NULLS FIRST, scope_id, memory_ref";

pub(in crate::postgres) async fn crowded(
    session: &Session,
    most: u64,
) -> Result<Vec<CrowdedMemory>, Fault> {
    let rows = session.rows(CROWDED, &[&signed(most), &CONVERSATIONS]).await?;
    let read = |row: &Row| {
        Ok(CrowdedMemory {
            owner: place(row, 0)?,
            scope_id: name(row, 3)?,
            memory_ref: name(row, 4)?,
            newest: unsigned(row, 5)?,
        })
    };
    rows.iter().map(read).collect()
}

async fn read(session: &Session, statement: &Statement) -> Result<Vec<MemoryRecord>, Fault> {
    statement.rows(session).await?.iter().map(record).collect()
}

fn record(row: &Row) -> Result<MemoryRecord, Fault> {
    let id = name(row, 0)?;
    let unreadable = |error: serde_json::Error| Fault::unreadable(format!("entry {id}"), error);
    let (tags, author, sources): (&str, &str, &str) =
        (row.try_get(4)?, row.try_get(9)?, row.try_get(10)?);
    let version = unsigned(row, 7)?;
    Ok(MemoryRecord {
        scope_id: name(row, 1)?,
        memory_ref: name(row, 2)?,
        content: name(row, 3)?,
        tags: serde_json::from_str(tags).map_err(unreadable)?,
        created_at: time(row, 5)?,
        expires_at: optional_time(row, 6)?,
        version,
        previous_version: (version > 1).then(|| version - 1),
        written_at: time(row, 8)?,
        author: serde_json::from_str(author).map_err(unreadable)?,
        sources: serde_json::from_str(sources).map_err(unreadable)?,
        family: optional_name(row, 11)?.map(Into::into),
        position: unsigned(row, 12)?,
        first: unsigned(row, 13)?,
        superseded_by: value::<Option<i64>>(row, 14)?.and_then(|at| u64::try_from(at).ok()),
        owner: place(row, 15)?,
        id: id.as_str().into(),
    })
}
