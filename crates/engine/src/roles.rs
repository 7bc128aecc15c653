//! Roles: names for sets of scopes, kept for a tenant. What the host's own files name stands beside them and is not here.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::Timestamp;

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Realm, Scope, Store, StoreError};

/// Roles that one tenant may have. All of them are in memory.
pub const MOST_ROLES: usize = 200;

/// The roles of every tenant.
#[derive(Debug, Clone)]
pub struct Roles {
    store: Arc<dyn Store>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Role {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    /// Must be there: a role whose scopes were lost stands for nothing, and says so.
    pub scopes: BTreeSet<String>,
    pub updated_at: Timestamp,
}

/// What became of a role that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutRole {
    Created,
    Replaced,
    /// The tenant has [`MOST_ROLES`] others.
    TooMany,
}

impl Roles {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Every role with the realm that it is of. One that cannot be read stands for nothing.
    pub async fn all_roles(&self) -> Result<Vec<(Realm, Role)>, StoreError> {
        let all = RecordQuery::all(Kind::Role, Within::Everywhere);
        let mut roles = Vec::new();
        for record in self.store.scan(&all).await? {
            match record.read() {
                Ok(role) => roles.push((record.place.realm(), role)),
                Err(error) => {
                    tracing::error!(role = %record.key, %error, "stored role left out: set it again");
                }
            }
        }
        Ok(roles)
    }

    /// Those of one tenant, by name.
    pub async fn roles(&self, realm: &Realm) -> Result<Vec<Role>, StoreError> {
        let all = RecordQuery::all(Kind::Role, Within::Realm(realm.clone()));
        self.store.scan(&all).await?.iter().map(Record::read).collect()
    }

    pub async fn put_role(&self, realm: &Realm, role: &Role) -> Result<PutRole, StoreError> {
        retry_moved(|| self.try_to_put(realm, role)).await
    }

    async fn try_to_put(&self, realm: &Realm, role: &Role) -> Result<PutRole, StoreError> {
        let key = Key::in_realm(realm, [role.name.as_str()]);
        let before = self.store.get(Kind::Role, &key).await?;
        if before.is_none() && self.roles(realm).await?.len() >= MOST_ROLES {
            return Ok(PutRole::TooMany);
        }
        let place = Scope { tenant: realm.tenant.clone(), workspace: None, mode: realm.mode };
        let put = RecordChange::put(Kind::Role, key, place, role)?;
        let put = put.expecting(Expected::of(before.as_ref()));
        self.store.commit(Batch::of_records([put])).await?;
        Ok(if before.is_some() { PutRole::Replaced } else { PutRole::Created })
    }

    /// Answers whether there was one.
    pub async fn remove_role(&self, realm: &Realm, name: &str) -> Result<bool, StoreError> {
        let gone = RecordChange::delete(Kind::Role, Key::in_realm(realm, [name]));
        match self.store.commit(Batch::of_records([gone.expecting(Expected::Present)])).await {
            Ok(()) => Ok(true),
            Err(StoreError::Moved { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
