//! Secrets of tenants: sealed before they come near the database, opened only for the call that needs them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_core::SecretText;
use callboard_engine::{KeyMode, Put, Secrets, StoreError, StoredSecret};
use callboard_protocol::{SecretName, Tenant, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, time};

#[async_trait]
impl Secrets for SqliteStore {
    async fn resolve_secret(
        &self,
        tenant: &Tenant,
        mode: KeyMode,
        name: &SecretName,
    ) -> Result<Option<SecretText>, StoreError> {
        let key = (tenant.clone(), name.clone());
        let found = self.readers.read(move |db| find(db, &key.0, mode, &key.1)).await?;
        let place = place(tenant, mode, name);
        let opened = found.map(|sealed| self.seal.open(&place, &sealed)).transpose();
        let opened = opened.map_err(|error| StoreError::Unreadable {
            what: format!("the secret {name}"),
            why: error.to_string(),
        })?;
        Ok(opened.map(SecretText::new))
    }

    async fn put_secret(
        &self,
        tenant: &Tenant,
        mode: KeyMode,
        name: &SecretName,
        value: SecretText,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let sealed =
            self.seal.seal(&place(tenant, mode, name), value.reveal()).map_err(|error| {
                StoreError::Unavailable(format!("the secret {name} cannot be sealed: {error}"))
            })?;
        let (tenant, name) = (tenant.clone(), name.clone());
        self.writer.write(move |db| put(db, &tenant, mode, &name, &sealed, at)).await
    }

    async fn secrets(
        &self,
        tenant: &Tenant,
        mode: KeyMode,
    ) -> Result<Vec<StoredSecret>, StoreError> {
        let tenant = tenant.clone();
        self.readers.read(move |db| list(db, &tenant, mode)).await
    }

    async fn remove_secret(
        &self,
        tenant: &Tenant,
        mode: KeyMode,
        name: &SecretName,
    ) -> Result<bool, StoreError> {
        let (tenant, name) = (tenant.clone(), name.clone());
        self.writer.write(move |db| remove(db, &tenant, mode, &name)).await
    }
}

/// Where a value stands, for its seal. Names have no slash, so no two places read the same.
fn place(tenant: &Tenant, mode: KeyMode, name: &SecretName) -> String {
    match mode {
        KeyMode::Live => format!("secret/{tenant}/{name}"),
        KeyMode::Test => format!("test-secret/{tenant}/{name}"),
    }
}

fn find(
    db: &Connection,
    tenant: &Tenant,
    mode: KeyMode,
    name: &SecretName,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT sealed FROM secrets WHERE tenant = ?1 AND test = ?2 AND name = ?3",
    )?;
    let key = params![tenant.as_str(), mode == KeyMode::Test, name.as_str()];
    Ok(select.query_row(key, |row| row.get(0)).optional()?)
}

fn put(
    db: &Connection,
    tenant: &Tenant,
    mode: KeyMode,
    name: &SecretName,
    sealed: &[u8],
    at: Timestamp,
) -> Result<Put, Fault> {
    let (tenant, name, at) = (tenant.as_str(), name.as_str(), at.as_millis());
    let test = mode == KeyMode::Test;
    let replace = "UPDATE secrets SET sealed = ?4, updated_at = ?5
         WHERE tenant = ?1 AND test = ?2 AND name = ?3";
    if execute(db, replace, params![tenant, test, name, sealed, at])? > 0 {
        return Ok(Put::Replaced);
    }
    let insert = "INSERT INTO secrets (tenant, test, name, sealed, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
    execute(db, insert, params![tenant, test, name, sealed, at])?;
    Ok(Put::Created)
}

fn list(db: &Connection, tenant: &Tenant, mode: KeyMode) -> Result<Vec<StoredSecret>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT name, created_at, updated_at FROM secrets
         WHERE tenant = ?1 AND test = ?2 ORDER BY name",
    )?;
    let mut rows = select.query(params![tenant.as_str(), mode == KeyMode::Test])?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next()? {
        secrets.push(StoredSecret {
            name: row.get::<_, String>(0)?.into(),
            created_at: time(row, 1)?,
            updated_at: time(row, 2)?,
        });
    }
    Ok(secrets)
}

fn remove(
    db: &Connection,
    tenant: &Tenant,
    mode: KeyMode,
    name: &SecretName,
) -> Result<bool, Fault> {
    let sql = "DELETE FROM secrets WHERE tenant = ?1 AND test = ?2 AND name = ?3";
    Ok(execute(db, sql, params![tenant.as_str(), mode == KeyMode::Test, name.as_str()])? > 0)
}
