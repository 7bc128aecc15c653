//! Installed packs: one row each, the archive in it.

use std::collections::BTreeMap;

use callboard_protocol::hex;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{Digest, PackId, PackOwner, Packs, PutPack, StoreError, StoredPack};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, time};

#[async_trait]
impl Packs for SqliteStore {
    async fn put_pack(&self, pack: StoredPack, archive: Arc<[u8]>) -> Result<PutPack, StoreError> {
        self.writer.write(move |db| put(db, &pack, &archive)).await
    }

    async fn all_packs(&self) -> Result<Vec<StoredPack>, StoreError> {
        self.readers.read(all).await
    }

    async fn pack_archive(&self, id: &PackId) -> Result<Option<Arc<[u8]>>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| archive(db, &id)).await
    }

    async fn remove_pack(&self, id: &PackId) -> Result<bool, StoreError> {
        let id = id.clone();
        self.writer.write(move |db| remove(db, &id)).await
    }
}

/// The columns that say whose pack it is.
fn owner(id: &PackId) -> (bool, &str) {
    match &id.owner {
        PackOwner::Host => (true, ""),
        PackOwner::Tenant(tenant) => (false, tenant.as_str()),
    }
}

fn put(db: &Connection, pack: &StoredPack, archive: &[u8]) -> Result<PutPack, Fault> {
    let (host_wide, tenant) = owner(&pack.id);
    let (name, version) = (pack.id.name.as_str(), pack.id.version.as_str());
    let known: Option<(Digest, bool)> = db
        .prepare_cached(
            "SELECT digest, is_removed FROM packs WHERE host_wide = ?1 AND tenant = ?2 AND name = ?3 AND version = ?4",
        )?
        .query_row(params![host_wide, tenant, name, version], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((digest, false)) if digest == pack.digest => return Ok(PutPack::Unchanged),
        Some((digest, true)) if digest == pack.digest => {
            set_removed(db, &pack.id, false)?;
            return Ok(PutPack::Created);
        }
        Some(_) => return Ok(PutPack::Conflict),
        None => {}
    }
    let files: BTreeMap<&String, String> =
        pack.files.iter().map(|(path, digest)| (path, hex(digest))).collect();
    let files = serde_json::to_string(&files)
        .map_err(|error| Fault::unreadable(format!("the files of {name}"), error))?;
    execute(
        db,
        "INSERT INTO packs
             (host_wide, tenant, name, version, digest, files, signed_by, signature, installed_at, archive)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            host_wide,
            tenant,
            name,
            version,
            pack.digest.as_slice(),
            files,
            pack.signed_by,
            pack.signature,
            pack.installed_at.as_millis(),
            archive,
        ],
    )?;
    Ok(PutPack::Created)
}

fn all(db: &Connection) -> Result<Vec<StoredPack>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT host_wide, tenant, name, version, digest, files, signed_by, signature, installed_at, is_removed
         FROM packs ORDER BY name, version, host_wide, tenant",
    )?;
    let mut rows = select.query([])?;
    let mut packs = Vec::new();
    while let Some(row) = rows.next()? {
        packs.push(stored_pack(row)?);
    }
    Ok(packs)
}

fn stored_pack(row: &Row<'_>) -> Result<StoredPack, Fault> {
    let (name, version): (String, String) = (row.get(2)?, row.get(3)?);
    let unreadable = |why: &dyn ToString| {
        Fault::unreadable(format!("the pack {name} {version}"), why.to_string())
    };
    let files: BTreeMap<String, String> =
        serde_json::from_str(&row.get::<_, String>(5)?).map_err(|error| unreadable(&error))?;
    let files = files.into_iter().map(|(path, digest)| {
        let digest = digest_of(&digest).ok_or_else(|| unreadable(&"a digest is damaged"))?;
        Ok((path, digest))
    });
    Ok(StoredPack {
        id: PackId {
            owner: match row.get(0)? {
                true => PackOwner::Host,
                false => PackOwner::Tenant(row.get::<_, String>(1)?.into()),
            },
            name: name.parse().map_err(|error| unreadable(&error))?,
            version: version.parse().map_err(|error| unreadable(&error))?,
        },
        digest: row.get(4)?,
        files: files.collect::<Result<_, Fault>>()?,
        signed_by: row.get(6)?,
        signature: row.get(7)?,
        installed_at: time(row, 8)?,
        is_removed: row.get(9)?,
    })
}

fn archive(db: &Connection, id: &PackId) -> Result<Option<Arc<[u8]>>, Fault> {
    let (host_wide, tenant) = owner(id);
    let bytes: Option<Vec<u8>> = db
        .prepare_cached(
            "SELECT archive FROM packs WHERE host_wide = ?1 AND tenant = ?2 AND name = ?3 AND version = ?4",
        )?
        .query_row(params![host_wide, tenant, id.name.as_str(), id.version.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(bytes.map(Arc::from))
}

fn remove(db: &Connection, id: &PackId) -> Result<bool, Fault> {
    set_removed(db, id, true)
}

/// Answers whether that changed anything.
fn set_removed(db: &Connection, id: &PackId, is_removed: bool) -> Result<bool, Fault> {
    let (host_wide, tenant) = owner(id);
    let sql = "UPDATE packs SET is_removed = ?5
         WHERE host_wide = ?1 AND tenant = ?2 AND name = ?3 AND version = ?4 AND is_removed <> ?5";
    let params = params![host_wide, tenant, id.name.as_str(), id.version.as_str(), is_removed];
    Ok(execute(db, sql, params)? > 0)
}

fn digest_of(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(digest)
}
