//! Secrets of tenants: sealed before they come near the database, opened only for the call that needs them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_core::{Provenance, SecretText};
use callboard_engine::{HeldSecret, KeyMode, Put, Scope, Secrets, StoreError, StoredSecret};
use callboard_protocol::{SecretName, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, place_params, time};

#[async_trait]
impl Secrets for SqliteStore {
    async fn resolve_secret(
        &self,
        place: &Scope,
        name: &SecretName,
    ) -> Result<Option<HeldSecret>, StoreError> {
        let key = (place.clone(), name.clone());
        let found = self.readers.read(move |db| find(db, &key.0, &key.1)).await?;
        let Some(Row { sealed, provenance }) = found else { return Ok(None) };
        let opened = self.seal.open(&sealed_for(place, name), &sealed);
        let opened = opened.map_err(|error| StoreError::Unreadable {
            what: format!("the secret {name}"),
            why: error.to_string(),
        })?;
        Ok(Some(HeldSecret { value: SecretText::new(opened), provenance }))
    }

    async fn put_secret(
        &self,
        place: &Scope,
        name: &SecretName,
        secret: HeldSecret,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let HeldSecret { value, provenance } = secret;
        let sealed = self.seal.seal(&sealed_for(place, name), value.reveal()).map_err(|error| {
            StoreError::Unavailable(format!("the secret {name} cannot be sealed: {error}"))
        })?;
        let (place, name) = (place.clone(), name.clone());
        let row = Row { sealed, provenance };
        self.writer.write(move |db| put(db, &place, &name, &row, at)).await
    }

    async fn secrets(&self, place: &Scope) -> Result<Vec<StoredSecret>, StoreError> {
        let place = place.clone();
        self.readers.read(move |db| list(db, &place)).await
    }

    async fn remove_secret(&self, place: &Scope, name: &SecretName) -> Result<bool, StoreError> {
        let (place, name) = (place.clone(), name.clone());
        self.writer.write(move |db| remove(db, &place, &name)).await
    }
}

/// What is written of a secret.
struct Row {
    sealed: Vec<u8>,
    provenance: Option<Provenance>,
}

/// What a value's seal is bound to. Neither tenants nor names have a slash, so no two places read the same.
fn sealed_for(place: &Scope, name: &SecretName) -> String {
    let Scope { tenant, workspace, mode } = place;
    let kind = match mode {
        KeyMode::Live => "secret",
        KeyMode::Test => "test-secret",
    };
    match workspace {
        None => format!("{kind}/{tenant}/{name}"),
        Some(workspace) => format!("{kind}-of-workspace/{tenant}/{workspace}/{name}"),
    }
}

fn find(db: &Connection, place: &Scope, name: &SecretName) -> Result<Option<Row>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT sealed, provenance FROM secrets
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND name = ?4",
    )?;
    let (tenant, test, workspace) = place_params(place);
    let key = params![tenant, test, workspace, name.as_str()];
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Row { sealed: row.get(0)?, provenance: read_provenance(row.get(1)?) })
    };
    Ok(select.query_row(key, read).optional()?)
}

/// What cannot be read admits nobody, and never everybody.
fn read_provenance(text: Option<String>) -> Option<Provenance> {
    let nobody = Provenance { audiences: Vec::new(), expires_at: None };
    text.map(|text| serde_json::from_str(&text).unwrap_or(nobody))
}

fn put(
    db: &Connection,
    place: &Scope,
    name: &SecretName,
    row: &Row,
    at: Timestamp,
) -> Result<Put, Fault> {
    let (tenant, test, workspace) = place_params(place);
    let (name, at) = (name.as_str(), at.as_millis());
    let provenance = row.provenance.as_ref().map(|it| serde_json::json!(it).to_string());
    let values = params![tenant, test, workspace, name, row.sealed, at, provenance];
    let replace = "UPDATE secrets SET sealed = ?5, updated_at = ?6, provenance = ?7
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND name = ?4";
    if execute(db, replace, values)? > 0 {
        return Ok(Put::Replaced);
    }
    let insert = "INSERT INTO secrets
             (tenant, test, workspace, name, sealed, created_at, updated_at, provenance)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)";
    execute(db, insert, values)?;
    Ok(Put::Created)
}

fn list(db: &Connection, place: &Scope) -> Result<Vec<StoredSecret>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT name, created_at, updated_at, provenance FROM secrets
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 ORDER BY name",
    )?;
    let mut rows = select.query(place_params(place))?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next()? {
        secrets.push(StoredSecret {
            name: row.get::<_, String>(0)?.into(),
            created_at: time(row, 1)?,
            updated_at: time(row, 2)?,
            provenance: read_provenance(row.get(3)?),
        });
    }
    Ok(secrets)
}

fn remove(db: &Connection, place: &Scope, name: &SecretName) -> Result<bool, Fault> {
    let (tenant, test, workspace) = place_params(place);
    let sql =
        "DELETE FROM secrets WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND name = ?4";
    Ok(execute(db, sql, params![tenant, test, workspace, name.as_str()])? > 0)
}
