//! What people say of runs.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use callboard_engine::{Annotated, Annotations, Scope, StoreError};
use callboard_protocol::{Annotation, RunId};

use super::SqliteStore;
use super::fault::Fault;
use super::read::{Visible, visible};
use super::rows::{execute, signed};

#[async_trait]
impl Annotations for SqliteStore {
    async fn annotate(
        &self,
        scope: &Scope,
        annotation: Annotation,
        most: usize,
    ) -> Result<Annotated, StoreError> {
        let scope = scope.clone();
        self.writer.write(move |db| keep(db, &scope, &annotation, most)).await
    }

    async fn annotations(
        &self,
        scope: &Scope,
        run: &RunId,
    ) -> Result<Option<Vec<Annotation>>, StoreError> {
        let (scope, run) = (scope.clone(), run.clone());
        self.readers.read(move |db| list(db, &scope, &run)).await
    }
}

fn keep(
    db: &Connection,
    scope: &Scope,
    annotation: &Annotation,
    most: usize,
) -> Result<Annotated, Fault> {
    let Some(Visible { id: run, .. }) = visible(db, scope, &annotation.target.run_id)? else {
        return Ok(Annotated::UnknownRun);
    };
    let body = serde_json::to_string(annotation)
        .map_err(|error| Fault::unreadable("an annotation", error))?;
    let kept = execute(
        db,
        "INSERT INTO annotations (run, body) SELECT ?1, ?2
         WHERE (SELECT count(*) FROM annotations WHERE run = ?1) < ?3",
        params![run, body, signed(most as u64)],
    )?;
    Ok(if kept > 0 { Annotated::Kept } else { Annotated::TooMany })
}

fn list(db: &Connection, scope: &Scope, run: &RunId) -> Result<Option<Vec<Annotation>>, Fault> {
    let Some(Visible { id, .. }) = visible(db, scope, run)? else { return Ok(None) };
    let mut select =
        db.prepare_cached("SELECT body FROM annotations WHERE run = ?1 ORDER BY id")?;
    let mut rows = select.query([id])?;
    let mut annotations = Vec::new();
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        let annotation = serde_json::from_str(&body)
            .map_err(|error| Fault::unreadable(format!("an annotation of {run}"), error))?;
        annotations.push(annotation);
    }
    Ok(Some(annotations))
}
