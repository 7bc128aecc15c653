//! Who may come in: configured keys, stored keys, and one table of both in memory, which knows its generation.
//!
//! Only digests are kept. A caller's key is looked up by the first bytes of its digest and then
//! compared whole, in constant time.

mod caller;
mod configured;
mod identity;
mod roles;
mod table;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use callboard_agents::{Granted, Grants};
use callboard_engine::{
    KeyMode, Keys, Made, PutRole, Realm, Role, Roles, Scope, Store, StoreError, StoredKey,
};
use callboard_protocol::{KeyId, Principal, Tenant, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::problem::{Code, Problem};
use table::Table;

pub use caller::Caller;
pub use configured::{StaticKey, StaticKeyError};
pub use roles::{EVERY_SCOPE, FileRoles, RoleError, check_role};
pub(crate) use roles::{RoleOrigin, RoleTable};
pub(crate) use table::{KeyOrigin, Known};
pub use text::KeyText;
pub(crate) use text::TEST_PREFIX;

/// Begins the principal of a caller with a key.
const KEY_PRINCIPAL: &str = "key:";

/// The same on every host, so that of several that start at once on an empty database one makes it.
const FIRST_KEY: &str = "key_first";

/// The tenant of those who name none.
const DEFAULT_TENANT: &str = "default";

/// All keys that open this host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KeyRing {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stored: Keys,
    roles: Roles,
    /// Those of the host's file.
    file_roles: Mutex<FileRoles>,
    configured: Vec<StoredKey>,
    test_keys: TestKeys,
    table: RwLock<Arc<Table>>,
    /// Which generation of the stored keys the table holds at least.
    generation: AtomicU64,
    /// One reload at a time: a slow one must not put back what a later one found revoked.
    reloading: tokio::sync::Mutex<()>,
}

/// Which keys count as test keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestKeys {
    /// Those whose text says so.
    ByPrefix,
    /// Every key: the host itself runs for tests.
    All,
}

/// Why a key could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the system gives no random numbers: {0}")]
    NoRandomness(String),
}

/// A key to be made, for a caller that may make it.
#[derive(Debug)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) scopes: Option<BTreeSet<String>>,
    pub(crate) roles: BTreeSet<String>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) made_by: Option<KeyId>,
    pub(crate) votes_as: Option<Principal>,
}

impl KeyRing {
    /// Reads the stored keys and puts the configured ones beside them.
    pub async fn load(
        store: Arc<dyn Store>,
        configured: Vec<StaticKey>,
        test_keys: TestKeys,
    ) -> Result<Self, StoreError> {
        let configured = configured.into_iter().map(StaticKey::into_stored).collect();
        let (stored, roles, file_roles) =
            (Keys::new(store.clone()), Roles::new(store), Mutex::default());
        let (table, generation, reloading) = Default::default();
        let inner = Inner {
            stored,
            roles,
            file_roles,
            configured,
            test_keys,
            table,
            generation,
            reloading,
        };
        let ring = Self { inner: Arc::new(inner) };
        ring.reload().await?;
        Ok(ring)
    }

    /// Reads the stored keys again where another process has made or revoked one since.
    pub async fn catch_up(&self, generation: u64) -> Result<(), StoreError> {
        if self.inner.generation.load(Ordering::Acquire) != generation {
            self.reload().await?;
            self.inner.generation.store(generation, Ordering::Release);
        }
        Ok(())
    }

    /// Puts other roles in the place of those that the host's file named before.
    pub async fn set_file_roles(&self, roles: FileRoles) -> Result<(), StoreError> {
        *self.inner.file_roles.lock().unwrap_or_else(PoisonError::into_inner) = roles;
        self.reload().await
    }

    async fn reload(&self) -> Result<(), StoreError> {
        let _alone = self.inner.reloading.lock().await;
        let stored = self.inner.stored.all_keys().await?;
        let roles = self.inner.roles.all_roles().await?;
        let file = self.inner.file_roles.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = self.table();
        let mut table = Table::new(Arc::new(RoleTable::new(file, roles)));
        for key in &self.inner.configured {
            let known = self.known(&before, &table.roles, key.clone(), KeyOrigin::Configured);
            table.insert(known);
        }
        for key in stored {
            let origin = if key.issuer.is_some() { KeyOrigin::Issuer } else { KeyOrigin::Stored };
            let known = self.known(&before, &table.roles, key, origin);
            table.insert(known);
        }
        *self.inner.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        Ok(())
    }

    /// Streams of a key that was revoked, or that may do less than before, end.
    fn known(&self, before: &Table, roles: &RoleTable, key: StoredKey, origin: KeyOrigin) -> Known {
        let before = before.by_id(&key.id);
        let realm = self.scope_of(&key).realm();
        let grant = Arc::new(roles.grant(&realm, key.scopes.as_ref(), &key.roles));
        let mut revoked = before.map(|known| known.revoked.clone()).unwrap_or_default();
        if key.revoked_at.is_some() {
            revoked.cancel();
        } else if before.is_some_and(|known| !grant.keeps(&known.grant)) {
            revoked.cancel();
            revoked = CancellationToken::new();
        }
        let used = before.map(|known| Arc::clone(&known.used)).unwrap_or_default();
        Known { key: Arc::new(key), origin, grant, revoked, used }
    }

    /// Makes the first admin key where there is none at all. The text is shown this once and then forgotten.
    pub async fn bootstrap(&self, at: Timestamp) -> Result<Option<(KeyId, KeyText)>, KeyError> {
        if self.table().all().next().is_some() {
            return Ok(None);
        }
        let mode = match self.inner.test_keys {
            TestKeys::ByPrefix => KeyMode::Live,
            TestKeys::All => KeyMode::Test,
        };
        let scope = Scope { tenant: DEFAULT_TENANT.into(), workspace: None, mode };
        let new = NewKey {
            name: "first admin key".to_owned(),
            scope,
            scopes: None,
            roles: BTreeSet::new(),
            expires_at: None,
            made_by: None,
            votes_as: None,
        };
        match self.create_as(FIRST_KEY.into(), new, at).await {
            // Another host of the same database was quicker.
            Err(KeyError::Store(StoreError::Moved { .. })) => {
                self.reload().await?;
                Ok(None)
            }
            made => Ok(Some(made?)),
        }
    }

    pub(crate) async fn create(
        &self,
        new: NewKey,
        at: Timestamp,
    ) -> Result<(KeyId, KeyText), KeyError> {
        let id = format!("key_{}", uuid::Uuid::now_v7().simple());
        self.create_as(id.into(), new, at).await
    }

    async fn create_as(
        &self,
        id: KeyId,
        new: NewKey,
        at: Timestamp,
    ) -> Result<(KeyId, KeyText), KeyError> {
        let text = KeyText::generate(new.scope.mode)?;
        let key = StoredKey {
            id: id.clone(),
            name: new.name,
            tenant: new.scope.tenant,
            workspace: new.scope.workspace,
            scopes: new.scopes,
            test: new.scope.mode == KeyMode::Test,
            digest: text.digest(),
            created_at: at,
            expires_at: new.expires_at,
            revoked_at: None,
            made_by: new.made_by,
            votes_as: new.votes_as,
            roles: new.roles,
            issuer: None,
        };
        self.inner.stored.put_key(key).await?;
        self.reload().await?;
        Ok((id, text))
    }

    /// Takes a key back at once: requests are refused and open streams end.
    pub(crate) async fn revoke(&self, key: &StoredKey, at: Timestamp) -> Result<(), StoreError> {
        self.inner.stored.revoke_key(&key.tenant, &key.id, at).await?;
        self.reload().await
    }

    /// Lets a key end at this time, unless it ends before.
    pub(crate) async fn end_at(&self, key: &StoredKey, at: Timestamp) -> Result<(), StoreError> {
        self.inner.stored.end_key(&key.tenant, &key.id, at).await?;
        self.reload().await
    }

    /// What every role of a tenant stands for now.
    pub(crate) fn roles(&self) -> Arc<RoleTable> {
        Arc::clone(&self.table().roles)
    }

    pub(crate) async fn put_role(&self, realm: &Realm, role: &Role) -> Result<PutRole, StoreError> {
        let put = self.inner.roles.put_role(realm, role).await?;
        self.reload().await?;
        Ok(put)
    }

    pub(crate) async fn remove_role(&self, realm: &Realm, name: &str) -> Result<bool, StoreError> {
        let was_there = self.inner.roles.remove_role(realm, name).await?;
        self.reload().await?;
        Ok(was_there)
    }

    /// Writes down when keys were used last, where that has changed: to be called now and then, never by a request.
    pub async fn note_uses(&self) -> Result<(), StoreError> {
        let table = self.table();
        let used: Vec<_> = table.all().filter_map(|it| Some((it, it.used.unnoted()?))).collect();
        if used.is_empty() {
            return Ok(());
        }
        let uses: Vec<_> = used.iter().map(|(known, at)| (known.key.id.clone(), *at)).collect();
        self.inner.stored.note_uses(&uses).await?;
        used.iter().for_each(|(known, at)| known.used.noted(*at));
        Ok(())
    }

    /// When keys were used last, by this process or another.
    pub(crate) async fn last_used(
        &self,
        keys: &[Known],
    ) -> Result<BTreeMap<KeyId, Timestamp>, StoreError> {
        let mut uses = self.inner.stored.uses().await?;
        for known in keys {
            if let Some(at) = known.used.at() {
                let noted = uses.entry(known.key.id.clone()).or_insert(at);
                *noted = at.max(*noted);
            }
        }
        Ok(uses)
    }

    /// Notes that a caller makes something that goes on without its key.
    pub(crate) async fn note(&self, caller: &Caller, made: Made) -> Result<(), StoreError> {
        self.inner.stored.note_maker(&caller.scope.realm(), made, &caller.key_id).await
    }

    /// The members and webhooks that a key made, also those that are gone.
    pub(crate) async fn noted_of(&self, of: &Scope, id: &KeyId) -> Result<Vec<Made>, StoreError> {
        self.inner.stored.noted_of(&of.realm(), id).await
    }

    /// Where a key lives, and what it makes.
    pub(crate) fn scope_of(&self, key: &StoredKey) -> Scope {
        let (tenant, workspace) = (key.tenant.clone(), key.workspace.clone());
        Scope { tenant, workspace, mode: self.mode_of(key) }
    }

    /// Where the key with this id lives.
    pub fn place_of(&self, id: &KeyId) -> Option<Scope> {
        self.by_id(id).map(|known| self.scope_of(&known.key))
    }

    /// The keys that a caller may see and manage, oldest first.
    pub(crate) fn list(&self, scope: &Scope) -> Vec<Known> {
        let table = self.table();
        let mut visible: Vec<Known> =
            table.all().filter(|known| self.is_visible(known, scope)).cloned().collect();
        visible.sort_by(|a, b| (a.key.created_at, &a.key.id).cmp(&(b.key.created_at, &b.key.id)));
        visible
    }

    /// The keys of all tenants: for what follows from one of them.
    pub(crate) fn everywhere(&self) -> Vec<Known> {
        self.table().all().cloned().collect()
    }

    pub(crate) fn find(&self, scope: &Scope, id: &KeyId) -> Option<Known> {
        self.table().by_id(id).filter(|known| self.is_visible(known, scope)).cloned()
    }

    /// Finds whose text this is, without judging whether the key still counts.
    pub(crate) fn look_up(&self, text: &str) -> Option<Known> {
        self.table().find(&text::digest(text))
    }

    /// The key that a caller showed before. Whether it is still valid is checked as for every other.
    pub(crate) fn by_id(&self, id: &KeyId) -> Option<Known> {
        self.table().by_id(id).cloned()
    }

    /// Judges a known key: revoked, expired, or a caller.
    pub(crate) fn admit(&self, known: &Known, at: Timestamp) -> Result<Caller, Problem> {
        let key = &known.key;
        if key.revoked_at.is_some() {
            return Err(Problem::new(Code::KeyRevoked, "this key was revoked"));
        }
        if key.expires_at.is_some_and(|expires_at| expires_at <= at) {
            return Err(Problem::new(Code::KeyExpired, "this key has expired"));
        }
        if known.origin == KeyOrigin::Issuer && known.grant.is_nothing() {
            return Err(Problem::new(Code::KeyRevoked, "the roles of this sign-in grant nothing"));
        }
        Ok(self.caller(known))
    }

    fn caller(&self, known: &Known) -> Caller {
        let key = &known.key;
        Caller {
            key_id: key.id.clone(),
            principal: known.principal(),
            scope: self.scope_of(key),
            scopes: known.grant.scopes.clone(),
            own_scopes: key.scopes.clone(),
            roles: known.grant.roles.clone(),
            expires_at: key.expires_at,
            revoked: known.revoked.clone(),
            votes_as: key.votes_as.clone(),
        }
    }

    fn mode_of(&self, key: &StoredKey) -> KeyMode {
        match self.inner.test_keys {
            TestKeys::ByPrefix if !key.test => KeyMode::Live,
            TestKeys::ByPrefix | TestKeys::All => KeyMode::Test,
        }
    }

    fn is_visible(&self, known: &Known, scope: &Scope) -> bool {
        let key = &known.key;
        key.tenant == scope.tenant
            && self.mode_of(key) == scope.mode
            && (scope.workspace.is_none() || scope.workspace == key.workspace)
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.inner.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs belong to the keys that started them. A caller without a key, or with an invalid one, has no scopes.
#[async_trait]
impl Grants for KeyRing {
    async fn granted(&self, tenant: &Tenant, principal: &Principal, at: Timestamp) -> Granted {
        let table = self.table();
        let is_theirs =
            |known: &&Known| known.key.tenant == *tenant && known.principal() == *principal;
        let counts = |known: &&Known| {
            known.key.revoked_at.is_none() && known.key.expires_at.is_none_or(|end| end > at)
        };
        // Whoever signs in in several ways has, for a run, what all of them grant.
        let theirs: Vec<&Known> = match principal.as_str().strip_prefix(KEY_PRINCIPAL) {
            Some(id) => table.by_id(&id.into()).into_iter().filter(is_theirs).collect(),
            None => table.all().filter(is_theirs).collect(),
        };
        if theirs.is_empty() || !theirs.iter().all(counts) {
            return Granted::Unknown;
        }
        let both =
            |one: Option<BTreeSet<String>>, other: Option<BTreeSet<String>>| match (one, other) {
                (Some(one), Some(other)) => Some(one.intersection(&other).cloned().collect()),
                (one, other) => one.or(other),
            };
        let scopes = theirs.iter().map(|known| known.grant.scopes.clone()).reduce(both);
        scopes.flatten().map_or(Granted::Everything, Granted::Only)
    }
}

/// Who a caller with this key is.
pub(crate) fn principal_of(key: &KeyId) -> Principal {
    format!("{KEY_PRINCIPAL}{key}").into()
}

/// What a workspace's key gets that would change a thing of the whole tenant.
pub(crate) fn of_tenant(what: &str) -> Problem {
    let message =
        format!("the {what} is the whole tenant's; change it with a key that has no workspace");
    Problem::new(Code::Forbidden, message)
}
