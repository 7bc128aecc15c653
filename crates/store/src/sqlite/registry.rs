//! Plain rows: workflow definitions, API keys, generations of link secrets.

use rusqlite::{Connection, Row, params};

use callboard_engine::{KeyMode, Made, Put, Realm, Scope, StoreError, StoredKey, StoredWorkflow};
use callboard_protocol::{KeyId, Principal, Tenant, Timestamp, WorkflowId, Workspace};

use super::fault::Fault;
use super::rows::{execute, millis, optional_time, place_params, realm_params, time};

/// What the kinds of things with a maker are called.
const MEMBER: &str = "member";
const WEBHOOK: &str = "webhook";

pub(super) fn workflow(
    db: &Connection,
    place: &Scope,
    id: &WorkflowId,
) -> Result<Option<StoredWorkflow>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT workflow_id, source, updated_at FROM workflows
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND workflow_id = ?4",
    )?;
    let (tenant, test, workspace) = place_params(place);
    let mut rows = select.query(params![tenant, test, workspace, id.as_str()])?;
    rows.next()?.map(stored_workflow).transpose()
}

pub(super) fn workflows(db: &Connection, place: &Scope) -> Result<Vec<StoredWorkflow>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT workflow_id, source, updated_at FROM workflows
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 ORDER BY workflow_id",
    )?;
    let mut rows = select.query(place_params(place))?;
    let mut workflows = Vec::new();
    while let Some(row) = rows.next()? {
        workflows.push(stored_workflow(row)?);
    }
    Ok(workflows)
}

fn stored_workflow(row: &Row<'_>) -> Result<StoredWorkflow, Fault> {
    let id = row.get::<_, String>(0)?.into();
    Ok(StoredWorkflow::new(id, row.get::<_, String>(1)?.into(), time(row, 2)?))
}

pub(super) fn put_workflow(
    db: &Connection,
    place: &Scope,
    id: &WorkflowId,
    source: &str,
    at: Timestamp,
) -> Result<Put, Fault> {
    let (tenant, test, workspace) = place_params(place);
    let version: i64 = db
        .prepare_cached(
            "INSERT INTO workflows (tenant, test, workspace, workflow_id, source, version, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)
             ON CONFLICT (tenant, test, workspace, workflow_id) DO UPDATE
             SET source = excluded.source, version = version + 1, updated_at = excluded.updated_at
             RETURNING version",
        )?
        .query_row(
            params![tenant, test, workspace, id.as_str(), source, at.as_millis()],
            |row| row.get(0),
        )?;
    Ok(if version == 1 { Put::Created } else { Put::Replaced })
}

pub(super) fn delete_workflow(
    db: &Connection,
    place: &Scope,
    id: &WorkflowId,
) -> Result<bool, Fault> {
    let (tenant, test, workspace) = place_params(place);
    let sql = "DELETE FROM workflows WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND workflow_id = ?4";
    Ok(execute(db, sql, params![tenant, test, workspace, id.as_str()])? > 0)
}

pub(super) fn all_keys(db: &Connection) -> Result<Vec<StoredKey>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key_id, name, tenant, workspace, scopes, test, digest, created_at, expires_at, revoked_at,
             made_by, votes_as
         FROM keys ORDER BY key_id",
    )?;
    let mut rows = select.query([])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        match stored_key(row) {
            Ok(key) => keys.push(key),
            // One that cannot be read opens nothing, and shall not keep the others from their work.
            Err(fault) => {
                let key: String = row.get(0).unwrap_or_else(|_| "unknown".to_owned());
                let error = StoreError::from(fault);
                tracing::error!(key, %error, "stored key left out: revoke it and make another");
            }
        }
    }
    Ok(keys)
}

fn stored_key(row: &Row<'_>) -> Result<StoredKey, Fault> {
    let id: KeyId = row.get::<_, String>(0)?.into();
    let scopes: Option<String> = row.get(4)?;
    let scopes = scopes
        .map(|scopes| serde_json::from_str(&scopes))
        .transpose()
        .map_err(|error| Fault::unreadable(format!("the scopes of key {id}"), error))?;
    Ok(StoredKey {
        id,
        name: row.get(1)?,
        tenant: row.get::<_, String>(2)?.into(),
        workspace: row.get::<_, Option<String>>(3)?.map(Workspace::from),
        scopes,
        test: row.get(5)?,
        digest: row.get(6)?,
        created_at: time(row, 7)?,
        expires_at: optional_time(row, 8)?,
        revoked_at: optional_time(row, 9)?,
        made_by: row.get::<_, Option<String>>(10)?.map(KeyId::from),
        votes_as: row.get::<_, Option<String>>(11)?.map(Principal::from),
    })
}

pub(super) fn put_key(db: &Connection, key: &StoredKey) -> Result<(), Fault> {
    let scopes = key
        .scopes
        .as_ref()
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| Fault::unreadable(format!("the scopes of key {}", key.id), error))?;
    execute(
        db,
        "INSERT OR REPLACE INTO keys
             (key_id, name, tenant, workspace, scopes, test, digest, created_at, expires_at, revoked_at,
              made_by, votes_as)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            key.id.as_str(),
            key.name,
            key.tenant.as_str(),
            key.workspace.as_ref().map(|workspace| workspace.as_str()),
            scopes,
            key.test,
            key.digest.as_slice(),
            key.created_at.as_millis(),
            millis(key.expires_at),
            millis(key.revoked_at),
            key.made_by.as_ref().map(|maker| maker.as_str()),
            key.votes_as.as_ref().map(|voter| voter.as_str()),
        ],
    )?;
    Ok(())
}

pub(super) fn revoke_key(
    db: &Connection,
    tenant: &Tenant,
    id: &KeyId,
    at: Timestamp,
) -> Result<bool, Fault> {
    // Revoking twice keeps the time at which the key really stopped working.
    let sql =
        "UPDATE keys SET revoked_at = coalesce(revoked_at, ?3) WHERE tenant = ?1 AND key_id = ?2";
    Ok(execute(db, sql, params![tenant.as_str(), id.as_str(), at.as_millis()])? > 0)
}

pub(super) fn note_maker(
    db: &Connection,
    realm: &Realm,
    made: &Made,
    maker: &KeyId,
) -> Result<(), Fault> {
    let (tenant, test) = realm_params(realm);
    let (kind, id) = match made {
        Made::Member(id) => (MEMBER, id.as_str()),
        Made::Webhook(id) => (WEBHOOK, id.as_str()),
    };
    let sql = "INSERT OR REPLACE INTO makers (tenant, test, kind, made, maker) VALUES (?1, ?2, ?3, ?4, ?5)";
    execute(db, sql, params![tenant, test, kind, id, maker.as_str()])?;
    Ok(())
}

pub(super) fn noted_of(db: &Connection, realm: &Realm, maker: &KeyId) -> Result<Vec<Made>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT kind, made FROM makers WHERE tenant = ?1 AND test = ?2 AND maker = ?3
         ORDER BY kind, made",
    )?;
    let (tenant, test) = realm_params(realm);
    let mut rows = select.query(params![tenant, test, maker.as_str()])?;
    let mut noted = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, id): (String, String) = (row.get(0)?, row.get(1)?);
        // What a newer build notes is not known here.
        match kind.as_str() {
            MEMBER => noted.push(Made::Member(id.into())),
            WEBHOOK => noted.push(Made::Webhook(id.into())),
            _ => {}
        }
    }
    Ok(noted)
}

/// Where a generation stands among the facts about this database.
fn link_fact(realm: &Realm) -> String {
    let Realm { tenant, mode } = realm;
    match mode {
        KeyMode::Live => format!("link_generation/{tenant}"),
        KeyMode::Test => format!("test_link_generation/{tenant}"),
    }
}

pub(super) fn link_generation(db: &Connection, realm: &Realm) -> Result<u32, Fault> {
    let mut select = db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    let mut rows = select.query([link_fact(realm)])?;
    let Some(row) = rows.next()? else { return Ok(0) };
    let unreadable = || Fault::unreadable("the generation of link secrets", "it is no number");
    let value: [u8; 4] = row.get::<_, Vec<u8>>(0)?.try_into().map_err(|_| unreadable())?;
    Ok(u32::from_be_bytes(value))
}

pub(super) fn rotate_links(db: &Connection, realm: &Realm) -> Result<u32, Fault> {
    let next = link_generation(db, realm)?.saturating_add(1);
    let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)";
    execute(db, sql, params![link_fact(realm), next.to_be_bytes()])?;
    Ok(next)
}
