//! Secrets that links to interrupts are signed with, in generations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::records::{Expected, Key, Kind, RecordChange, retry_moved};
use crate::store::{Batch, KeyMode, Realm, Scope, Store, StoreError};

/// The secrets of tenants' links. Every host on one database has the same ones.
#[derive(Debug, Clone)]
pub struct LinkSecrets {
    store: Arc<dyn Store>,
}

#[derive(Serialize, Deserialize)]
struct Body {
    generation: u32,
}

impl LinkSecrets {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The generation that signs the links of a tenant's runs now; zero before the first rotation.
    pub async fn link_generation(&self, realm: &Realm) -> Result<u32, StoreError> {
        Ok(self.read(realm).await?.0)
    }

    /// Begins the next generation and answers it.
    pub async fn rotate_links(&self, realm: &Realm) -> Result<u32, StoreError> {
        retry_moved(|| self.try_to_rotate(realm)).await
    }

    async fn try_to_rotate(&self, realm: &Realm) -> Result<u32, StoreError> {
        let (current, expected) = self.read(realm).await?;
        let generation = current.saturating_add(1);
        let place = Scope { tenant: realm.tenant.clone(), workspace: None, mode: realm.mode };
        let next =
            RecordChange::put(Kind::LinkGeneration, key(realm), place, &Body { generation })?;
        self.store.commit(Batch::of_records([next.expecting(expected)])).await?;
        Ok(generation)
    }

    async fn read(&self, realm: &Realm) -> Result<(u32, Expected), StoreError> {
        match self.store.get(Kind::LinkGeneration, &key(realm)).await? {
            Some(record) => {
                let Body { generation } = record.read()?;
                Ok((generation, Expected::Version(record.version)))
            }
            None => Ok((0, Expected::Absent)),
        }
    }

    /// The secret of one generation, the same after every restart.
    pub fn link_secret(&self, realm: &Realm, generation: u32) -> [u8; 32] {
        let Realm { tenant, mode } = realm;
        self.store.derive(&match mode {
            KeyMode::Live => format!("interrupt links/{generation}/{tenant}"),
            KeyMode::Test => format!("interrupt links of test keys/{generation}/{tenant}"),
        })
    }
}

fn key(realm: &Realm) -> Key {
    Key::in_realm(realm, [])
}
