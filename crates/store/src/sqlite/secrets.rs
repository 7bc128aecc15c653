//! Secrets of tenants: sealed before they come near the database, opened only for the call that needs them.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use callboard_core::SecretText;
use callboard_engine::{Put, Secrets, StoreError, StoredSecret};
use callboard_protocol::{SecretName, Tenant, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, time};

#[async_trait]
impl Secrets for SqliteStore {
    async fn resolve_secret(
        &self,
        tenant: &Tenant,
        name: &SecretName,
    ) -> Result<Option<SecretText>, StoreError> {
        let key = (tenant.clone(), name.clone());
        let found = self.readers.read(move |db| find(db, &key.0, &key.1)).await?;
        let opened = found.map(|sealed| self.seal.open(&place(tenant, name), &sealed)).transpose();
        let opened = opened.map_err(|error| StoreError::Unreadable {
            what: format!("the secret {name}"),
            why: error.to_string(),
        })?;
        Ok(opened.map(SecretText::new))
    }

    async fn put_secret(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        value: SecretText,
        at: Timestamp,
    ) -> Result<Put, StoreError> {
        let sealed = self.seal.seal(&place(tenant, name), value.reveal()).map_err(|error| {
            StoreError::Unavailable(format!("the secret {name} cannot be sealed: {error}"))
        })?;
        let (tenant, name) = (tenant.clone(), name.clone());
        self.writer.write(move |db| put(db, &tenant, &name, &sealed, at)).await
    }

    async fn secrets(&self, tenant: &Tenant) -> Result<Vec<StoredSecret>, StoreError> {
        let tenant = tenant.clone();
        self.readers.read(move |db| list(db, &tenant)).await
    }

    async fn remove_secret(&self, tenant: &Tenant, name: &SecretName) -> Result<bool, StoreError> {
        let (tenant, name) = (tenant.clone(), name.clone());
        self.writer.write(move |db| remove(db, &tenant, &name)).await
    }
}

/// Where a value stands, for its seal. Names have no slash, so no two places read the same.
fn place(tenant: &Tenant, name: &SecretName) -> String {
    format!("secret/{tenant}/{name}")
}

fn find(db: &Connection, tenant: &Tenant, name: &SecretName) -> Result<Option<Vec<u8>>, Fault> {
    let mut select =
        db.prepare_cached("SELECT sealed FROM secrets WHERE tenant = ?1 AND name = ?2")?;
    Ok(select.query_row([tenant.as_str(), name.as_str()], |row| row.get(0)).optional()?)
}

fn put(
    db: &Connection,
    tenant: &Tenant,
    name: &SecretName,
    sealed: &[u8],
    at: Timestamp,
) -> Result<Put, Fault> {
    let (tenant, name, at) = (tenant.as_str(), name.as_str(), at.as_millis());
    let replace = "UPDATE secrets SET sealed = ?3, updated_at = ?4 WHERE tenant = ?1 AND name = ?2";
    if execute(db, replace, params![tenant, name, sealed, at])? > 0 {
        return Ok(Put::Replaced);
    }
    let insert = "INSERT INTO secrets (tenant, name, sealed, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?4)";
    execute(db, insert, params![tenant, name, sealed, at])?;
    Ok(Put::Created)
}

fn list(db: &Connection, tenant: &Tenant) -> Result<Vec<StoredSecret>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT name, created_at, updated_at FROM secrets WHERE tenant = ?1 ORDER BY name",
    )?;
    let mut rows = select.query([tenant.as_str()])?;
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

fn remove(db: &Connection, tenant: &Tenant, name: &SecretName) -> Result<bool, Fault> {
    let sql = "DELETE FROM secrets WHERE tenant = ?1 AND name = ?2";
    Ok(execute(db, sql, params![tenant.as_str(), name.as_str()])? > 0)
}
