//! The registry of agents, which changes in the store first, then in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use callboard_engine::{Digest, PackId, PackOwner, Packs, PutPack, Store, StoreError, StoredPack};
use callboard_protocol::Timestamp;

use super::{Installed, Snapshot};
use crate::admission::{Offer, Policy, Report, Unsigned, Vetted, vet};
use crate::error::PackError;
use crate::pack::check_dependencies;
use crate::proof::Proof;
use crate::signature::Signature;

/// Installs and removes packs; readers take a snapshot and are never kept waiting.
#[derive(Debug)]
pub struct AgentRegistry {
    store: Packs,
    policy: RwLock<Arc<Policy>>,
    current: RwLock<Arc<Snapshot>>,
    /// Which generation of the stored packs is known here at least.
    generation: AtomicU64,
    /// Held from the change in the store to the change in memory, so that both happen in one order.
    changing: Mutex<()>,
}

/// A stored pack that is not offered, because it would not pass the checks today.
#[derive(Debug)]
pub struct Left {
    pub id: PackId,
    pub why: PackError,
}

/// Why a pack was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Refused(#[from] PackError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AgentRegistry {
    /// Starts with the packs that the host was given for all tenants and those that were installed before.
    /// Packs that would not pass the checks any more are left out and reported.
    pub async fn open(
        store: Arc<dyn Store>,
        policy: Policy,
        loaded: Vec<Installed>,
    ) -> Result<(Self, Vec<Left>), StoreError> {
        let (store, policy) = (Packs::new(store), Arc::new(policy));
        let (snapshot, left) = gather(&store, &policy, loaded).await?;
        let (policy, current) = (RwLock::new(policy), RwLock::new(Arc::new(snapshot)));
        let (generation, changing) = Default::default();
        Ok((Self { store, policy, current, generation, changing }, left))
    }

    /// The same again, with what the host's files say now. Runs keep the packs that they were born with.
    pub async fn reload(
        &self,
        policy: Policy,
        loaded: Vec<Installed>,
    ) -> Result<Vec<Left>, StoreError> {
        let _changing = self.changing.lock().await;
        let policy = Arc::new(policy);
        let (snapshot, left) = gather(&self.store, &policy, loaded).await?;
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        self.swap(|_| snapshot);
        Ok(left)
    }

    /// What is installed right now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks a pack and keeps it. The same bytes again are no error; other bytes under a known version are.
    pub async fn install(
        &self,
        owner: PackOwner,
        offer: Offer,
        unsigned: Unsigned,
        at: Timestamp,
    ) -> Result<(Arc<Installed>, PutPack), InstallError> {
        let policy = Policy { unsigned, ..Policy::clone(&self.policy()) };
        let (archive, signature) = (offer.archive.clone(), offer.signature.clone());
        let vetted = blocking(move || vet(offer, &policy, &mut Report::default())).await??;
        let stored = to_store(&owner, &vetted, &archive, signature, at);
        let installed = Arc::new(Installed::new(owner, vetted, at));

        let _changing = self.changing.lock().await;
        self.refuse_conflict(&installed)?;
        let there = self.snapshot();
        let visible = there.packs.values().filter(|it| it.can_build_on(&installed));
        check_dependencies(&installed.pack, visible.map(|it| &it.pack))?;
        match self.store.put_pack(stored, archive).await? {
            PutPack::Conflict => Err(conflict(&installed).into()),
            put @ (PutPack::Created | PutPack::Unchanged) => {
                let there = self.snapshot().offered(&installed.id()).cloned();
                let there =
                    there.filter(|there| there.proof.is_some() || installed.proof.is_none());
                let installed = there.unwrap_or(installed);
                self.swap(|snapshot| snapshot.with(installed.clone()));
                Ok((installed, put))
            }
        }
    }

    /// Takes over what other hosts of the same database have installed and removed since.
    pub async fn catch_up(&self, generation: u64) -> Result<(), StoreError> {
        if self.generation.load(Ordering::Acquire) != generation {
            self.refresh().await?;
            self.generation.store(generation, Ordering::Release);
        }
        Ok(())
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        let _changing = self.changing.lock().await;
        // What a host was given for all tenants is its own.
        let of_tenants = |stored: &StoredPack| stored.id.owner != PackOwner::Host;
        for stored in self.store.all_packs().await?.into_iter().filter(of_tenants) {
            let there = self.snapshot();
            match there.packs.values().find(|pack| pack.is_stored_as(&stored)) {
                Some(same) if same.is_removed == stored.is_removed => {}
                Some(same) => {
                    let is_removed = stored.is_removed;
                    let changed = Installed { is_removed, ..Installed::clone(same) };
                    self.swap(|snapshot| snapshot.with(Arc::new(changed)));
                }
                None => self.take_over(stored).await?,
            }
        }
        Ok(())
    }

    async fn take_over(&self, stored: StoredPack) -> Result<(), StoreError> {
        let Some(archive) = self.store.pack_archive(&stored.id, &stored.digest).await? else {
            return Ok(());
        };
        let (id, policy) = (stored.id.clone(), self.policy());
        match blocking(move || load(stored, archive, &policy)).await? {
            Ok(installed) => self.swap(|snapshot| snapshot.with(Arc::new(installed))),
            Err(why) => {
                let (name, version) = (&id.name, &id.version);
                tracing::debug!(pack = %name, %version, error = %why, "installed pack left out");
            }
        }
        Ok(())
    }

    /// Answers whether there was one. What the host was given at start is not for tenants to remove.
    pub async fn remove(&self, id: &PackId) -> Result<bool, StoreError> {
        let _changing = self.changing.lock().await;
        let removed = self.store.remove_pack(id).await?;
        if removed {
            self.swap(|snapshot| snapshot.without(id));
        }
        Ok(removed)
    }

    /// One version means the same for everyone who can see it, also where the host provides it for all.
    fn refuse_conflict(&self, new: &Installed) -> Result<(), PackError> {
        let snapshot = self.snapshot();
        let of_host = snapshot.offered(&PackId { owner: PackOwner::Host, ..new.id() });
        match of_host {
            Some(there) if there.pack.integrity != new.pack.integrity => Err(conflict(new)),
            _ => Ok(()),
        }
    }

    fn swap(&self, change: impl FnOnce(&Snapshot) -> Snapshot) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(change(&current));
    }
}

fn conflict(pack: &Installed) -> PackError {
    let PackId { name, version, .. } = pack.id();
    PackError::VersionConflict { name, version }
}

fn to_store(
    owner: &PackOwner,
    vetted: &Vetted,
    archive: &[u8],
    signature: Option<Vec<u8>>,
    at: Timestamp,
) -> StoredPack {
    let pack = &vetted.pack;
    let (name, version) = (pack.name().clone(), pack.version().clone());
    StoredPack {
        id: PackId { owner: owner.clone(), name, version },
        digest: Sha256::digest(archive).into(),
        files: pack.digests.clone(),
        signed_by: match (&vetted.signature, vetted.proof) {
            (Signature::Good { key }, Some(_)) => Some(key.clone()),
            (Signature::Good { .. } | Signature::Missing | Signature::UnknownKey { .. }, _) => None,
        },
        signature,
        verified_by: vetted.proof.map(|proof| proof.as_str().to_owned()),
        installed_at: at,
        is_removed: false,
    }
}

/// The packs that the host was given, and those that were installed.
async fn gather(
    store: &Packs,
    policy: &Arc<Policy>,
    loaded: Vec<Installed>,
) -> Result<(Snapshot, Vec<Left>), StoreError> {
    let given: Vec<_> = loaded.iter().map(|pack| pack.pack.clone()).collect();
    let mut packs = loaded;
    let mut left = Vec::new();
    for pack in std::mem::take(&mut packs) {
        // The host brings its packs in any order, so one looks at all of them.
        match check_dependencies(&pack.pack, given.iter()) {
            Ok(()) => packs.push(pack),
            Err(why) => left.push(Left { id: pack.id(), why }),
        }
    }
    for stored in store.all_packs().await? {
        let archive = store.pack_archive(&stored.id, &stored.digest).await?;
        let Some(archive) = archive else { continue };
        let (id, policy) = (stored.id.clone(), policy.clone());
        match blocking(move || load(stored, archive, &policy)).await? {
            Ok(installed) if packs.iter().any(|pack| pack.place() == installed.place()) => {}
            Ok(installed) => packs.push(behind(&packs, installed)),
            Err(why) => left.push(Left { id, why }),
        }
    }
    Ok((Snapshot::new(packs), left))
}

/// Checks a stored pack as if it were installed today: a key that is no longer trusted admits nothing, and no
/// file may differ from what was installed. One that was admitted unsigned stays so, and one whose signature covers
/// only `pack.json`, which once was enough, is unverified.
fn load(stored: StoredPack, archive: Arc<[u8]>, policy: &Policy) -> Result<Installed, PackError> {
    let unsigned =
        if stored.signed_by.is_some() { Unsigned::OnlyContents } else { Unsigned::Allowed };
    let policy = Policy { unsigned, ..policy.clone() };
    let digest: Digest = Sha256::digest(&archive).into();
    if digest != stored.digest {
        return Err(changed("the archive"));
    }
    let offer = Offer {
        archive,
        expected: Some((stored.id.name, stored.id.version)),
        integrity: None,
        signature: stored.signature,
    };
    let mut vetted = vet(offer, &policy, &mut Report::default())?;
    if vetted.pack.digests != stored.files {
        return Err(changed("a file of the archive"));
    }
    // The archive is the one whose digest was announced.
    let kept = stored.verified_by.as_deref().and_then(Proof::read);
    vetted.proof = vetted.proof.or(kept.filter(|proof| *proof != Proof::Signature));
    let is_removed = stored.is_removed;
    Ok(Installed { is_removed, ..Installed::new(stored.id.owner, vetted, stored.installed_at) })
}

/// What the host brings goes before what was installed under the same name, which stays for runs that keep it.
fn behind(packs: &[Installed], stored: Installed) -> Installed {
    let id = stored.id();
    let is_removed =
        stored.is_removed || packs.iter().any(|pack| pack.id() == id && !pack.is_removed);
    Installed { is_removed, ..stored }
}

fn changed(what: &str) -> PackError {
    PackError::Content { path: what.to_owned(), why: "it is not what was installed".to_owned() }
}

/// Unpacking is work for a thread that may take its time.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    spawn_blocking(work).await.map_err(|error| StoreError::Unavailable(error.to_string()))
}
