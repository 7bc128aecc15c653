//! Who may come in: configured keys, stored keys, and one table of both in memory, which knows its generation.
//!
//! Only digests are kept. A caller's key is looked up by the first bytes of its digest and then
//! compared whole, in constant time.

mod configured;
mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use callboard_agents::{Granted, Grants};
use callboard_engine::{
    Clock, Digest, KeyMode, Keys, Made, Realm, Scope, Store, StoreError, StoredKey,
};
use callboard_protocol::{KeyId, Owner, Principal, Tenant, Timestamp};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::problem::{Code, Problem};
use crate::scopes::{OF_A_ROLE, scopes_of};

pub use configured::{StaticKey, StaticKeyError};
pub use text::KeyText;
pub(crate) use text::TEST_PREFIX;

/// Enough of a digest to find its key, too little to be one.
const PREFIX: usize = 8;

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
    configured: Vec<Known>,
    test_keys: TestKeys,
    table: RwLock<Arc<Table>>,
    /// Which generation of the stored keys the table holds at least.
    generation: AtomicU64,
    /// One reload at a time: a slow one must not put back what a later one found revoked.
    reloading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Table {
    by_prefix: HashMap<[u8; PREFIX], Vec<Known>>,
}

/// Which keys count as test keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestKeys {
    /// Those whose text says so.
    ByPrefix,
    /// Every key: the host itself runs for tests.
    All,
}

/// One key as the ring knows it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) key: Arc<StoredKey>,
    pub(crate) origin: KeyOrigin,
    /// Cancelled when the key is revoked, so that its open streams end.
    revoked: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrigin {
    Configured,
    Stored,
}

/// Why a key could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the system gives no random numbers: {0}")]
    NoRandomness(String),
}

/// Who is asking, as far as a key says.
#[derive(Debug, Clone)]
pub struct Caller {
    pub key_id: KeyId,
    pub scope: Scope,
    /// None is every scope.
    pub scopes: Option<BTreeSet<String>>,
    pub expires_at: Option<Timestamp>,
    pub revoked: CancellationToken,
    /// In whose name it votes, where that is not its own.
    pub votes_as: Option<Principal>,
}

/// A key to be made, for a caller that may make it.
#[derive(Debug)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) scopes: Option<BTreeSet<String>>,
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
        let configured = configured.into_iter().map(|key| Known {
            key: Arc::new(key.into_stored()),
            origin: KeyOrigin::Configured,
            revoked: CancellationToken::new(),
        });
        let configured = configured.collect();
        let (stored, (table, generation, reloading)) = (Keys::new(store), Default::default());
        let inner = Inner { stored, configured, test_keys, table, generation, reloading };
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

    async fn reload(&self) -> Result<(), StoreError> {
        let _alone = self.inner.reloading.lock().await;
        let stored = self.inner.stored.all_keys().await?;
        let before = self.table();
        let revocations: BTreeMap<&KeyId, &CancellationToken> =
            before.all().map(|known| (&known.key.id, &known.revoked)).collect();
        let mut table = Table::default();
        for known in &self.inner.configured {
            table.insert(known.clone());
        }
        for key in stored {
            let revoked = revocations.get(&key.id).copied().cloned().unwrap_or_default();
            if key.revoked_at.is_some() {
                revoked.cancel();
            }
            table.insert(Known { key: Arc::new(key), origin: KeyOrigin::Stored, revoked });
        }
        *self.inner.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        Ok(())
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

    pub(crate) fn find(&self, scope: &Scope, id: &KeyId) -> Option<Known> {
        self.table()
            .all()
            .find(|known| known.key.id == *id && self.is_visible(known, scope))
            .cloned()
    }

    /// Finds whose text this is, without judging whether the key still counts.
    pub(crate) fn look_up(&self, text: &str) -> Option<Known> {
        self.table().find(&text::digest(text))
    }

    /// The key that a caller showed before. Whether it is still valid is checked as for every other.
    pub(crate) fn by_id(&self, id: &KeyId) -> Option<Known> {
        self.table().all().find(|known| known.key.id == *id).cloned()
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
        Ok(Caller {
            key_id: key.id.clone(),
            scope: self.scope_of(key),
            scopes: key.scopes.clone(),
            expires_at: key.expires_at,
            revoked: known.revoked.clone(),
            votes_as: key.votes_as.clone(),
        })
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
        let Some(id) = principal.as_str().strip_prefix(KEY_PRINCIPAL) else {
            return Granted::Unknown;
        };
        let table = self.table();
        let is_theirs = |known: &&Known| known.key.id.as_str() == id && known.key.tenant == *tenant;
        let caller = table.all().find(is_theirs).and_then(|known| self.admit(known, at).ok());
        match caller.map(|caller| caller.scopes) {
            Some(Some(scopes)) => Granted::Only(scopes),
            Some(None) => Granted::Everything,
            None => Granted::Unknown,
        }
    }
}

impl Table {
    fn insert(&mut self, known: Known) {
        self.by_prefix.entry(prefix(&known.key.digest)).or_default().push(known);
    }

    fn find(&self, digest: &Digest) -> Option<Known> {
        let candidates = self.by_prefix.get(&prefix(digest))?;
        candidates.iter().find(|known| bool::from(known.key.digest.ct_eq(digest))).cloned()
    }

    fn all(&self) -> impl Iterator<Item = &Known> {
        self.by_prefix.values().flatten()
    }
}

impl Caller {
    pub fn may(&self, scope: &str) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(scope))
    }

    /// Whether the key holds all that a role stands for; `role:approver` and `approver` are the same.
    pub(crate) fn has_role(&self, name: &str) -> bool {
        let meant = scopes_of(name.strip_prefix(OF_A_ROLE).unwrap_or(name));
        meant.is_some_and(|scopes| scopes.iter().all(|scope| self.may(scope)))
    }

    /// Whether the key that let the caller in counts no more.
    pub(crate) fn is_over(&self, at: Timestamp) -> bool {
        self.revoked.is_cancelled() || self.expires_at.is_some_and(|expires_at| expires_at <= at)
    }

    /// For whose runs a change of what all workspaces share is. A key of one workspace decides nothing for the others.
    pub(crate) fn whole_realm(&self) -> Result<Realm, Problem> {
        match self.scope.workspace {
            None => Ok(self.scope.realm()),
            Some(_) => Err(Problem::new(
                Code::Forbidden,
                "this is the same for all workspaces of the tenant; use a key that has no workspace",
            )),
        }
    }

    /// The answer to a waiting request whose key is no longer valid.
    pub(crate) fn check(&self, at: Timestamp) -> Result<(), Problem> {
        match (self.revoked.is_cancelled(), self.is_over(at)) {
            (true, _) => Err(Problem::new(Code::KeyRevoked, "this key was revoked")),
            (false, true) => Err(Problem::new(Code::KeyExpired, "this key has expired")),
            (false, false) => Ok(()),
        }
    }

    /// Waits until the key counts no more.
    pub(crate) async fn over(&self, clock: &dyn Clock) {
        let expiry = async {
            match self.expires_at {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // Losing either wait is fine: both are begun again from what the key says.
        tokio::select! {
            () = self.revoked.cancelled() => {}
            () = expiry => {}
        }
    }

    /// Opaque: it names the key, not a person.
    pub fn principal(&self) -> Principal {
        principal_of(&self.key_id)
    }

    /// In whose name it decides where votes are counted: a key that a key made votes as its maker.
    pub(crate) fn voter(&self) -> Principal {
        self.votes_as.clone().unwrap_or_else(|| self.principal())
    }

    /// One line of the audit log: who did what.
    pub(crate) fn audit(&self, subject: impl fmt::Display, what: &'static str) {
        tracing::info!(
            target: "audit",
            principal = %self.principal(),
            openwop.tenant_id = %self.scope.tenant,
            %subject,
            "{what}"
        );
    }

    pub fn owner(&self) -> Owner {
        Owner {
            tenant: self.scope.tenant.clone(),
            workspace: self.scope.workspace.clone(),
            principal: Some(self.principal()),
        }
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

fn prefix(digest: &Digest) -> [u8; PREFIX] {
    std::array::from_fn(|index| digest[index])
}
