//! API keys, and what was made with them. A key itself is never stored, only its digest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{KeyId, Principal, RosterId, Tenant, Timestamp, WebhookId, Workspace};

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Digest, KeyMode, Realm, Scope, Store, StoreError};

/// Every key of every tenant, and which key made what goes on without it.
#[derive(Debug, Clone)]
pub struct Keys {
    store: Arc<dyn Store>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredKey {
    pub id: KeyId,
    pub name: String,
    pub tenant: Tenant,
    #[serde(default)]
    pub workspace: Option<Workspace>,
    /// None is every scope. Must be there: a key whose scopes were lost opens nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    pub scopes: Option<BTreeSet<String>>,
    pub test: bool,
    pub digest: Digest,
    pub created_at: Timestamp,
    #[serde(deserialize_with = "Option::deserialize")]
    pub expires_at: Option<Timestamp>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub revoked_at: Option<Timestamp>,
    /// The key that made it; none for those of the operator's.
    #[serde(default)]
    pub made_by: Option<KeyId>,
    /// In whose name it votes, where that is not its own: nobody gets more votes by making keys.
    #[serde(default)]
    pub votes_as: Option<Principal>,
    /// Names of roles, whose scopes it has beside its own for as long as the roles stand for them.
    #[serde(default)]
    pub roles: BTreeSet<String>,
    /// Who vouches for it, where that is not its text: it is somebody who signed in there, and no text opens it.
    #[serde(default)]
    pub issuer: Option<String>,
}

impl StoredKey {
    fn put(&self) -> Result<RecordChange, StoreError> {
        let place = Scope {
            tenant: self.tenant.clone(),
            workspace: self.workspace.clone(),
            mode: KeyMode::of(self.test),
        };
        RecordChange::put(Kind::ApiKey, key(&self.id), place, self)
    }
}

/// What goes on without the key that made it and does not say itself which one that was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    Member(RosterId),
    Webhook(WebhookId),
}

/// What the kinds of things with a maker are called.
const MEMBER: &str = "member";
const WEBHOOK: &str = "webhook";

/// What things are found by: the key that made them.
const MAKER: &str = "maker";

#[derive(Serialize, Deserialize)]
struct KeyUse {
    id: KeyId,
    at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct MakerBody {
    kind: String,
    made: String,
    maker: KeyId,
}

impl MakerBody {
    fn new(made: Made, maker: KeyId) -> Self {
        let (kind, made) = match made {
            Made::Member(id) => (MEMBER, id.to_string()),
            Made::Webhook(id) => (WEBHOOK, id.to_string()),
        };
        Self { kind: kind.to_owned(), made, maker }
    }

    /// None for what only a newer build knows.
    fn made(self) -> Option<Made> {
        match self.kind.as_str() {
            MEMBER => Some(Made::Member(self.made.into())),
            WEBHOOK => Some(Made::Webhook(self.made.into())),
            _ => None,
        }
    }
}

impl Keys {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Every key of every tenant by id, revoked ones included: authentication must distinguish them.
    pub async fn all_keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        let all = RecordQuery::all(Kind::ApiKey, Within::Everywhere);
        let mut keys = Vec::new();
        for record in self.store.scan(&all).await? {
            match record.read() {
                Ok(key) => keys.push(key),
                // One that cannot be read opens nothing, and shall not keep the others from their work.
                Err(error) => {
                    tracing::error!(key = %record.key, %error, "stored key left out: revoke it and make another");
                }
            }
        }
        Ok(keys)
    }

    /// A new key. Of two with one id, the second is refused with [`StoreError::Moved`].
    pub async fn put_key(&self, key: StoredKey) -> Result<(), StoreError> {
        self.store.commit(Batch::of_records([key.put()?.expecting(Expected::Absent)])).await
    }

    /// Answers whether the tenant had such a key. Revoking twice keeps the time at which it really stopped working.
    pub async fn revoke_key(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        retry_moved(|| self.try_to_revoke(tenant, id, at)).await
    }

    async fn try_to_revoke(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let record = self.store.get(Kind::ApiKey, &key(id)).await?;
        let Some(record) = record.filter(|record| record.place.tenant == *tenant) else {
            return Ok(false);
        };
        let mut key: StoredKey = record.read()?;
        if key.revoked_at.is_none() {
            key.revoked_at = Some(at);
            let change = key.put()?.expecting(Expected::Version(record.version));
            self.store.commit(Batch::of_records([change])).await?;
        }
        Ok(true)
    }

    /// Lets a key end at this time, unless it ends before. Answers whether the tenant had such a key.
    pub async fn end_key(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        retry_moved(|| self.try_to_end(tenant, id, at)).await
    }

    async fn try_to_end(
        &self,
        tenant: &Tenant,
        id: &KeyId,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let record = self.store.get(Kind::ApiKey, &key(id)).await?;
        let Some(record) = record.filter(|record| record.place.tenant == *tenant) else {
            return Ok(false);
        };
        let mut key: StoredKey = record.read()?;
        if key.expires_at.is_none_or(|end| end > at) {
            key.expires_at = Some(at);
            let change = key.put()?.expecting(Expected::Version(record.version));
            self.store.commit(Batch::of_records([change])).await?;
        }
        Ok(true)
    }

    /// Notes somebody whom an issuer vouches for, or what is different of it now. A revoked one stays revoked.
    pub async fn note_identity(&self, identity: &StoredKey) -> Result<(), StoreError> {
        retry_moved(|| self.try_to_note(identity)).await
    }

    async fn try_to_note(&self, identity: &StoredKey) -> Result<(), StoreError> {
        let record = self.store.get(Kind::ApiKey, &key(&identity.id)).await?;
        let before: Option<StoredKey> = record.as_ref().map(Record::read).transpose()?;
        let mut now = identity.clone();
        if let Some(before) = &before {
            (now.created_at, now.revoked_at) = (before.created_at, before.revoked_at);
        }
        if before.as_ref() == Some(&now) {
            return Ok(());
        }
        let change = now.put()?.expecting(Expected::of(record.as_ref()));
        self.store.commit(Batch::of_records([change])).await
    }

    /// Writes down when keys were used last.
    pub async fn note_uses(&self, uses: &[(KeyId, Timestamp)]) -> Result<(), StoreError> {
        // It is the host's own: keys of the configuration have no record.
        let place = Scope { tenant: "".into(), workspace: None, mode: KeyMode::Live };
        let put = |(id, at): &(KeyId, Timestamp)| {
            let body = KeyUse { id: id.clone(), at: *at };
            RecordChange::put(Kind::KeyUse, key(id), place.clone(), &body)
        };
        let changes: Vec<RecordChange> = uses.iter().map(put).collect::<Result<_, _>>()?;
        self.store.commit(Batch::of_records(changes)).await
    }

    /// When each key was used last, as far as that was written down.
    pub async fn uses(&self) -> Result<BTreeMap<KeyId, Timestamp>, StoreError> {
        let all = RecordQuery::all(Kind::KeyUse, Within::Everywhere);
        let uses = self.store.scan(&all).await?;
        let uses: Vec<KeyUse> = uses.iter().map(Record::read).collect::<Result<_, _>>()?;
        Ok(uses.into_iter().map(|it| (it.id, it.at)).collect())
    }

    /// Notes which key makes something that goes on without it. Called before it is there, so that nothing is there
    /// whose maker nobody knows.
    pub async fn note_maker(
        &self,
        realm: &Realm,
        made: Made,
        maker: &KeyId,
    ) -> Result<(), StoreError> {
        let body = MakerBody::new(made, maker.clone());
        let key = Key::in_realm(realm, [body.kind.as_str(), body.made.as_str()]);
        let place = Scope { tenant: realm.tenant.clone(), workspace: None, mode: realm.mode };
        let note = RecordChange::put(Kind::Maker, key, place, &body)?
            .indexed(MAKER, maker_value(realm, maker));
        self.store.commit(Batch::of_records([note])).await
    }

    /// What was noted of a key, also where it is gone since.
    pub async fn noted_of(&self, realm: &Realm, maker: &KeyId) -> Result<Vec<Made>, StoreError> {
        let query = RecordQuery::all(Kind::Maker, Within::Realm(realm.clone()))
            .with(MAKER, maker_value(realm, maker));
        let mut noted = Vec::new();
        for record in self.store.scan(&query).await? {
            noted.extend(record.read::<MakerBody>()?.made());
        }
        Ok(noted)
    }
}

fn key(id: &KeyId) -> Key {
    Key::of([id.as_str()])
}

/// The value names its realm too, so that nobody reads past what others have made.
fn maker_value(realm: &Realm, maker: &KeyId) -> String {
    Key::in_realm(realm, [maker.as_str()]).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_whose_scopes_or_end_were_lost_is_not_read_as_one_without_any() {
        let whole = json!({
            "id": "key_a", "name": "n", "tenant": "acme", "scopes": null, "test": false, "digest": vec![0; 32],
            "createdAt": "1970-01-01T00:00:00Z", "expiresAt": null, "revokedAt": null,
        });
        let read = |body: serde_json::Value| serde_json::from_value::<StoredKey>(body);
        assert!(read(whole.clone()).is_ok_and(|key| key.scopes.is_none()));
        for lost in ["scopes", "expiresAt", "revokedAt"] {
            let mut body = whole.clone();
            body.as_object_mut().map(|body| body.remove(lost));
            assert!(read(body).is_err(), "{lost}");
        }
    }
}
