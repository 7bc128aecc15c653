//! What became of envelopes, with the events that follow from them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_engine::{EnvelopeId, Envelopes, KeptEnvelope, ProjectedEvent, StoreError};
use callboard_protocol::{RunId, Tenant, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::execute;

#[async_trait]
impl Envelopes for SqliteStore {
    async fn envelope(&self, id: &EnvelopeId) -> Result<Option<KeptEnvelope>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| find(db, &id)).await
    }

    async fn keep_envelope(
        &self,
        id: &EnvelopeId,
        kept: KeptEnvelope,
        events: Vec<ProjectedEvent>,
    ) -> Result<Option<KeptEnvelope>, StoreError> {
        let id = id.clone();
        self.writer.write(move |db| keep(db, &id, &kept, &events)).await
    }

    async fn project(
        &self,
        tenant: &Tenant,
        run: &RunId,
        events: Vec<ProjectedEvent>,
    ) -> Result<(), StoreError> {
        let (tenant, run) = (tenant.clone(), run.clone());
        self.writer.write(move |db| project(db, &tenant, &run, &events)).await
    }

    async fn projected(
        &self,
        tenant: &Tenant,
        run: &RunId,
    ) -> Result<Vec<ProjectedEvent>, StoreError> {
        let (tenant, run) = (tenant.clone(), run.clone());
        self.readers.read(move |db| projected(db, &tenant, &run)).await
    }

    async fn forget_projected(&self, tenant: &Tenant) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.writer.write(move |db| forget(db, &tenant)).await
    }
}

fn find(db: &Connection, id: &EnvelopeId) -> Result<Option<KeptEnvelope>, Fault> {
    let found = db
        .prepare_cached(
            "SELECT kind, outcome FROM envelopes
             WHERE tenant = ?1 AND run = ?2 AND correlation = ?3",
        )?
        .query_row([id.tenant.as_str(), id.run.as_str(), id.correlation.as_str()], |row| {
            Ok(KeptEnvelope { kind: row.get(0)?, outcome: row.get(1)? })
        })
        .optional()?;
    Ok(found)
}

fn keep(
    db: &Connection,
    id: &EnvelopeId,
    kept: &KeptEnvelope,
    events: &[ProjectedEvent],
) -> Result<Option<KeptEnvelope>, Fault> {
    if let Some(first) = find(db, id)? {
        return Ok(Some(first));
    }
    execute(
        db,
        "INSERT INTO envelopes (tenant, run, correlation, kind, outcome)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id.tenant.as_str(), id.run.as_str(), id.correlation, kept.kind, kept.outcome],
    )?;
    project(db, &id.tenant, &id.run, events)?;
    Ok(None)
}

fn project(
    db: &Connection,
    tenant: &Tenant,
    run: &RunId,
    events: &[ProjectedEvent],
) -> Result<(), Fault> {
    for event in events {
        execute(
            db,
            "INSERT INTO projected_events (tenant, run, at, body) VALUES (?1, ?2, ?3, ?4)",
            params![tenant.as_str(), run.as_str(), event.at.as_millis(), event.body],
        )?;
    }
    Ok(())
}

fn projected(db: &Connection, tenant: &Tenant, run: &RunId) -> Result<Vec<ProjectedEvent>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT at, body FROM projected_events WHERE tenant = ?1 AND run = ?2 ORDER BY id",
    )?;
    let mut rows = select.query([tenant.as_str(), run.as_str()])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(ProjectedEvent { at: Timestamp::from_millis(row.get(0)?), body: row.get(1)? });
    }
    Ok(events)
}

fn forget(db: &Connection, tenant: &Tenant) -> Result<(), Fault> {
    execute(db, "DELETE FROM projected_events WHERE tenant = ?1", params![tenant.as_str()])?;
    Ok(())
}
