//! All logs at once, in the order of commits.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use callboard_engine::{KeyMode, LogPosition, Logged, Recorded, Scope, Window, Within};
use callboard_protocol::{NodeId, Workspace};

use super::fault::Fault;
use super::rows::{cause, mode, payload, signed, time, unsigned};

pub(super) fn newest(db: &Connection) -> Result<LogPosition, Fault> {
    let mut select = db.prepare_cached("SELECT coalesce(max(position), 0) FROM events")?;
    let mut rows = select.query([])?;
    rows.next()?.map_or(Ok(LogPosition(0)), |row| Ok(LogPosition(unsigned(row, 0)?)))
}

/// The end comes first: what is committed after it belongs to the next window.
pub(super) fn read(
    db: &Connection,
    within: &Within,
    after: LogPosition,
    most: u64,
) -> Result<Window, Fault> {
    let until = after.0.saturating_add(most).min(newest(db)?.0).max(after.0);
    let (sql, mut values) = statement(within);
    values.splice(0..0, [signed(after.0).into(), signed(until).into()]);
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let event = Recorded {
            run: row.get::<_, String>(1)?.into(),
            sequence: unsigned(row, 2)?,
            at: time(row, 3)?,
            kind: row.get(4)?,
            node: row.get::<_, Option<String>>(5)?.map(NodeId::from),
            payload: payload(row, 6)?,
            engine_version: row.get(7)?,
            cause: cause(row, 8)?,
        };
        let tags: String = row.get(13)?;
        events.push(Logged {
            position: LogPosition(unsigned(row, 0)?),
            place: Scope {
                tenant: row.get::<_, String>(9)?.into(),
                workspace: row.get::<_, Option<String>>(10)?.map(Workspace::from),
                mode: mode(row, 11)?,
            },
            is_replay: row.get(12)?,
            tags: serde_json::from_str(&tags)
                .map_err(|error| Fault::unreadable("the tags of a run", error))?,
            event,
        });
    }
    Ok(Window { events, until: LogPosition(until) })
}

/// What is to be seen between two places of the log, which are the first two values.
pub(super) fn statement(within: &Within) -> (String, Vec<Value>) {
    let mut sql = "SELECT events.position, runs.run_id, events.sequence, events.at, events.kind, events.node,
             events.payload, runs.stamped_version, events.cause, runs.tenant, runs.workspace, runs.test,
             runs.is_replay, (SELECT json_group_array(tag) FROM run_tags WHERE run_tags.run = runs.id)
         FROM events JOIN runs ON runs.id = events.run
         WHERE events.position > ? AND events.position <= ?"
        .to_owned();
    let mut values = Vec::new();
    let (tenant, mode, workspace) = match within {
        Within::Everywhere => (None, KeyMode::Live, None),
        Within::Realm(realm) => (Some(&realm.tenant), realm.mode, None),
        Within::VisibleTo(scope) => {
            (Some(&scope.tenant), scope.mode, scope.workspace.as_ref().map(Some))
        }
        Within::Place(place) => (Some(&place.tenant), place.mode, Some(place.workspace.as_ref())),
    };
    if let Some(tenant) = tenant {
        sql.push_str(" AND runs.tenant = ? AND runs.test = ?");
        values.extend([tenant.to_string().into(), i64::from(mode == KeyMode::Test).into()]);
    }
    if let Some(workspace) = workspace {
        sql.push_str(" AND runs.workspace IS ?");
        values.push(workspace.map(ToString::to_string).into());
    }
    sql.push_str(" ORDER BY events.position");
    (sql, values)
}
