//! Installed packs: one row each, the archive in it.

use std::collections::BTreeMap;

use callboard_protocol::hex;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{Digest, PackId, PackOwner, Packs, PutPack, Realm, StoreError, StoredPack};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, realm_params, time};
use super::webhooks::mode;

#[async_trait]
impl Packs for SqliteStore {
    async fn put_pack(&self, pack: StoredPack, archive: Arc<[u8]>) -> Result<PutPack, StoreError> {
        self.writer.write(move |db| put(db, &pack, &archive)).await
    }

    async fn all_packs(&self) -> Result<Vec<StoredPack>, StoreError> {
        self.readers.read(all).await
    }

    async fn pack_archive(
        &self,
        id: &PackId,
        digest: &Digest,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        let (id, digest) = (id.clone(), *digest);
        self.readers.read(move |db| archive(db, &id, &digest)).await
    }

    async fn remove_pack(&self, id: &PackId) -> Result<bool, StoreError> {
        let id = id.clone();
        self.writer.write(move |db| remove(db, &id)).await
    }
}

/// The columns that say whose pack it is.
fn owner(id: &PackId) -> (bool, &str, bool) {
    match &id.owner {
        PackOwner::Host => (true, "", false),
        PackOwner::Realm(realm) => {
            let (tenant, test) = realm_params(realm);
            (false, tenant, test)
        }
    }
}

fn put(db: &Connection, pack: &StoredPack, archive: &[u8]) -> Result<PutPack, Fault> {
    match offered(db, &pack.id)? {
        Some(digest) if digest == pack.digest => {
            prove(db, pack)?;
            return Ok(PutPack::Unchanged);
        }
        Some(_) => return Ok(PutPack::Conflict),
        None => {}
    }
    if prove(db, pack)? {
        return Ok(PutPack::Created);
    }
    let (host_wide, tenant, test) = owner(&pack.id);
    let (name, version) = (pack.id.name.as_str(), pack.id.version.as_str());
    let files: BTreeMap<&String, String> =
        pack.files.iter().map(|(path, digest)| (path, hex(digest))).collect();
    let files = serde_json::to_string(&files)
        .map_err(|error| Fault::unreadable(format!("the files of {name}"), error))?;
    execute(
        db,
        "INSERT INTO packs
             (host_wide, tenant, test, name, version, digest, files, signed_by, signature, verified_by, installed_at,
              archive)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            host_wide,
            tenant,
            test,
            name,
            version,
            pack.digest.as_slice(),
            files,
            pack.signed_by,
            pack.signature,
            pack.verified_by,
            pack.installed_at.as_millis(),
            archive,
        ],
    )?;
    Ok(PutPack::Created)
}

/// The archive that is offered under a version.
fn offered(db: &Connection, id: &PackId) -> Result<Option<Digest>, Fault> {
    let (host_wide, tenant, test) = owner(id);
    let sql = "SELECT digest FROM packs
         WHERE host_wide = ?1 AND tenant = ?2 AND test = ?3 AND name = ?4 AND version = ?5 AND is_removed = 0";
    let params = params![host_wide, tenant, test, id.name.as_str(), id.version.as_str()];
    Ok(db.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
}

/// Offers an archive that is there, by what proves it now. Answers whether that changed anything.
fn prove(db: &Connection, pack: &StoredPack) -> Result<bool, Fault> {
    let (host_wide, tenant, test) = owner(&pack.id);
    let sql = "UPDATE packs SET is_removed = 0, signed_by = ?7, signature = ?8, verified_by = ?9
         WHERE host_wide = ?1 AND tenant = ?2 AND test = ?3 AND name = ?4 AND version = ?5 AND digest = ?6
             AND (is_removed = 1 OR verified_by IS NULL)";
    let params = params![
        host_wide,
        tenant,
        test,
        pack.id.name.as_str(),
        pack.id.version.as_str(),
        pack.digest.as_slice(),
        pack.signed_by,
        pack.signature,
        pack.verified_by,
    ];
    Ok(execute(db, sql, params)? > 0)
}

fn all(db: &Connection) -> Result<Vec<StoredPack>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT host_wide, tenant, name, version, digest, files, signed_by, signature, installed_at, is_removed,
             verified_by, test
         FROM packs ORDER BY name, version, host_wide, tenant, test, installed_at",
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
                false => PackOwner::Realm(Realm {
                    tenant: row.get::<_, String>(1)?.into(),
                    mode: mode(row, 11)?,
                }),
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
        verified_by: row.get(10)?,
    })
}

fn archive(db: &Connection, id: &PackId, digest: &Digest) -> Result<Option<Arc<[u8]>>, Fault> {
    let (host_wide, tenant, test) = owner(id);
    let sql = "SELECT archive FROM packs
         WHERE host_wide = ?1 AND tenant = ?2 AND test = ?3 AND name = ?4 AND version = ?5 AND digest = ?6";
    let params =
        params![host_wide, tenant, test, id.name.as_str(), id.version.as_str(), digest.as_slice()];
    let bytes: Option<Vec<u8>> =
        db.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
    Ok(bytes.map(Arc::from))
}

/// Answers whether that changed anything.
fn remove(db: &Connection, id: &PackId) -> Result<bool, Fault> {
    let (host_wide, tenant, test) = owner(id);
    let sql = "UPDATE packs SET is_removed = 1
         WHERE host_wide = ?1 AND tenant = ?2 AND test = ?3 AND name = ?4 AND version = ?5 AND is_removed = 0";
    let params = params![host_wide, tenant, test, id.name.as_str(), id.version.as_str()];
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
