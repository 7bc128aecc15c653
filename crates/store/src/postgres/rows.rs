//! Columns as values and values as columns: conversions that several statements share.

use std::fmt::Write as _;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, ToSql};

use callboard_core::Cause;
use callboard_engine::{KeyMode, Scope, Within};
use callboard_protocol::{RunStatus, Timestamp, Workspace};

use super::fault::Fault;
use super::session::Params;
use super::text;
use crate::sealed::cause_of;

pub(super) fn value<T: FromSqlOwned>(row: &Row, column: usize) -> Result<T, Fault> {
    Ok(row.try_get(column)?)
}

pub(super) fn name(row: &Row, column: usize) -> Result<String, Fault> {
    Ok(text::given(value(row, column)?))
}

pub(super) fn optional_name(row: &Row, column: usize) -> Result<Option<String>, Fault> {
    Ok(value::<Option<String>>(row, column)?.map(text::given))
}

pub(super) fn names(row: &Row, column: usize) -> Result<Vec<String>, Fault> {
    let found: Option<Vec<String>> = value(row, column)?;
    Ok(found.unwrap_or_default().into_iter().map(text::given).collect())
}

pub(super) fn time(row: &Row, column: usize) -> Result<Timestamp, Fault> {
    Ok(Timestamp::from_millis(value(row, column)?))
}

pub(super) fn optional_time(row: &Row, column: usize) -> Result<Option<Timestamp>, Fault> {
    Ok(value::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
}

pub(super) fn unsigned(row: &Row, column: usize) -> Result<u64, Fault> {
    let number: i64 = value(row, column)?;
    u64::try_from(number).map_err(|error| Fault::unreadable("a stored number", error))
}

/// Engine versions are small.
pub(super) fn version(row: &Row, column: usize) -> Result<u32, Fault> {
    let number: i32 = value(row, column)?;
    u32::try_from(number).map_err(|error| Fault::unreadable("an engine version", error))
}

pub(super) fn status(row: &Row, column: usize) -> Result<RunStatus, Fault> {
    let name: &str = row.try_get(column)?;
    RunStatus::from_name(name)
        .ok_or_else(|| Fault::unreadable("the status of a run", format!("{name:?} is unknown")))
}

pub(super) fn cause(row: &Row, column: usize) -> Result<Option<Cause>, Fault> {
    Ok(optional_name(row, column)?.map(cause_of))
}

/// Reads tenant, mode and workspace.
pub(super) fn place(row: &Row, first: usize) -> Result<Scope, Fault> {
    Ok(Scope {
        tenant: name(row, first)?.into(),
        mode: KeyMode::of(value(row, first + 1)?),
        workspace: optional_name(row, first + 2)?.map(Workspace::from),
    })
}

/// PostgreSQL's integers are signed. A count beyond them is beyond everything stored as well.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn limit(most: usize) -> i64 {
    signed(most as u64)
}

pub(super) fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_millis)
}

pub(super) const fn is_test(mode: KeyMode) -> bool {
    matches!(mode, KeyMode::Test)
}

type Value = Box<dyn ToSql + Sync + Send>;

/// A statement in the making. Only the conditions that are asked for are there, so that PostgreSQL can choose an index
/// by them; each shape is prepared once for each connection.
#[derive(Default)]
pub(super) struct Statement {
    sql: String,
    values: Vec<Value>,
}

impl Statement {
    pub(super) fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Appends the text with the value after it.
    pub(super) fn bind(&mut self, sql: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        // Writing to a string cannot fail.
        let _written = write!(self.sql, "{sql}${}", self.values.len());
    }

    pub(super) fn bind_name(&mut self, sql: &str, name: &str) {
        self.bind(sql, text::stored(name).into_owned());
    }

    /// The same where there is a name.
    pub(super) fn bind_some(&mut self, sql: &str, name: Option<&str>) {
        if let Some(name) = name {
            self.bind_name(sql, name);
        }
    }

    /// What a caller with this scope may see of a table.
    pub(super) fn visible(&mut self, table: &str, scope: &Scope) {
        self.bind_name(&format!("{table}.tenant = "), scope.tenant.as_str());
        self.bind(&format!(" AND {table}.test = "), is_test(scope.mode));
        let workspace = scope.workspace.as_ref().map(|workspace| workspace.as_str());
        self.bind_some(&format!(" AND {table}.workspace = "), workspace);
    }

    /// The same for where a query looks.
    pub(super) fn within(&mut self, table: &str, within: &Within) {
        match within {
            Within::Everywhere => self.push("true"),
            Within::Realm(realm) => {
                let (tenant, mode) = (realm.tenant.clone(), realm.mode);
                self.visible(table, &Scope { tenant, mode, workspace: None });
            }
            Within::VisibleTo(scope) => self.visible(table, scope),
            Within::Place(place) => {
                self.visible(table, place);
                if place.workspace.is_none() {
                    self.push(&format!(" AND {table}.workspace IS NULL"));
                }
            }
        }
    }

    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }

    pub(super) async fn rows(&self, session: &super::session::Session) -> Result<Vec<Row>, Fault> {
        let params = self.params();
        let params: Params<'_> = &params;
        session.rows(&self.sql, params).await
    }
}
