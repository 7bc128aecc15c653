//! Installed packs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_protocol::{PackName, PackVersion, Timestamp, hex};

use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Digest, Realm, Scope, Store, StoreError};

/// Packs by owner, name and version, of which one archive at a time is offered; those that were removed stay for
/// the runs that keep them.
#[derive(Debug, Clone)]
pub struct Packs {
    store: Arc<dyn Store>,
}

/// Which pack of whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackId {
    pub owner: PackOwner,
    pub name: PackName,
    pub version: PackVersion,
}

/// Who can see a pack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackOwner {
    /// Every tenant.
    Host,
    /// The runs of one tenant's live keys, or of its test keys.
    Realm(Realm),
}

/// What is kept beside an archive. Only `is_removed` and what proves it ever change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPack {
    pub id: PackId,
    /// Of the archive.
    pub digest: Digest,
    /// Of every file in it, by path.
    pub files: BTreeMap<String, Digest>,
    /// The key whose signature let it in; none if it was let in unsigned.
    pub signed_by: Option<String>,
    /// Through what its contents counted as verified; none if they did not, or nobody asked yet.
    pub verified_by: Option<String>,
    /// The signature that came beside the archive.
    pub signature: Option<Vec<u8>>,
    pub installed_at: Timestamp,
    /// Whether it is there only for runs that keep it.
    pub is_removed: bool,
}

/// What keeping a pack came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutPack {
    Created,
    /// The same archive was there.
    Unchanged,
    /// Another archive is offered under this version; it stays.
    Conflict,
}

/// A pack as it is kept; its archive is the record's blob.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackBody {
    host_wide: bool,
    name: PackName,
    version: PackVersion,
    digest: Digest,
    files: BTreeMap<String, Digest>,
    #[serde(default)]
    signed_by: Option<String>,
    #[serde(default)]
    verified_by: Option<String>,
    #[serde(default)]
    signature: Option<Vec<u8>>,
    installed_at: Timestamp,
}

/// The archive that is offered under a version: one, since there is one such record.
#[derive(Serialize, Deserialize)]
struct OfferBody {
    digest: Digest,
}

impl PackId {
    /// The key of what is offered under this version.
    fn key(&self) -> Key {
        Key::of(self.parts())
    }

    /// The key of one archive of this version.
    fn archive_key(&self, digest: &Digest) -> Key {
        Key::of(self.parts().into_iter().chain([hex(digest).as_str()]))
    }

    fn parts(&self) -> Vec<&str> {
        let (name, version) = (self.name.as_str(), self.version.as_str());
        match &self.owner {
            PackOwner::Host => vec!["host", name, version],
            PackOwner::Realm(realm) => {
                vec!["tenant", realm.tenant.as_str(), realm.mode.as_str(), name, version]
            }
        }
    }

    fn place(&self) -> Scope {
        match &self.owner {
            PackOwner::Host => Scope::of_host(),
            PackOwner::Realm(realm) => {
                Scope { tenant: realm.tenant.clone(), workspace: None, mode: realm.mode }
            }
        }
    }
}

impl StoredPack {
    fn put(&self) -> Result<RecordChange, StoreError> {
        let body = PackBody {
            host_wide: self.id.owner == PackOwner::Host,
            name: self.id.name.clone(),
            version: self.id.version.clone(),
            digest: self.digest,
            files: self.files.clone(),
            signed_by: self.signed_by.clone(),
            verified_by: self.verified_by.clone(),
            signature: self.signature.clone(),
            installed_at: self.installed_at,
        };
        RecordChange::put(Kind::Pack, self.id.archive_key(&self.digest), self.id.place(), &body)
    }

    /// Reads a pack as if it were offered.
    fn read(record: &Record) -> Result<Self, StoreError> {
        let body: PackBody = record.read()?;
        let owner =
            if body.host_wide { PackOwner::Host } else { PackOwner::Realm(record.place.realm()) };
        Ok(Self {
            id: PackId { owner, name: body.name, version: body.version },
            digest: body.digest,
            files: body.files,
            signed_by: body.signed_by,
            verified_by: body.verified_by,
            signature: body.signature,
            installed_at: body.installed_at,
            is_removed: false,
        })
    }

    /// Takes over what proves the same archive now.
    fn proven_as(self, new: &Self) -> Self {
        Self {
            signed_by: new.signed_by.clone(),
            signature: new.signature.clone(),
            verified_by: new.verified_by.clone(),
            ..self
        }
    }
}

impl Packs {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Keeps a pack with its archive, or nothing. Of several at once one is first, and the others learn
    /// whether theirs was the same. The same archive again says anew what proves it, unless that is nothing.
    pub async fn put_pack(
        &self,
        pack: StoredPack,
        archive: Arc<[u8]>,
    ) -> Result<PutPack, StoreError> {
        retry_moved(|| self.try_to_put(&pack, &archive)).await
    }

    async fn try_to_put(
        &self,
        pack: &StoredPack,
        archive: &Arc<[u8]>,
    ) -> Result<PutPack, StoreError> {
        let offer = self.offer(&pack.id).await?;
        if offer.as_ref().is_some_and(|(offered, _)| *offered != pack.digest) {
            return Ok(PutPack::Conflict);
        }
        let there = self.store.get(Kind::Pack, &pack.id.archive_key(&pack.digest)).await?;
        let (kept, expected) = match &there {
            Some(record) => (Some(StoredPack::read(record)?), Expected::Version(record.version)),
            None => (None, Expected::Absent),
        };
        if let (Some((_, version)), Some(kept)) = (offer, &kept) {
            if kept.verified_by.is_none() {
                let proven = kept.clone().proven_as(pack).put()?.expecting(expected);
                let still =
                    RecordChange::check(Kind::PackOffer, pack.id.key(), Expected::Version(version));
                self.store.commit(Batch::of_records([proven, still])).await?;
            }
            return Ok(PutPack::Unchanged);
        }
        let change = match kept {
            Some(kept) => kept.proven_as(pack).put()?,
            None => pack.put()?.with_blob(Arc::clone(archive)),
        };
        let offered = OfferBody { digest: pack.digest };
        let offer = RecordChange::put(Kind::PackOffer, pack.id.key(), pack.id.place(), &offered)?
            .expecting(Expected::Absent);
        self.store.commit(Batch::of_records([change.expecting(expected), offer])).await?;
        Ok(PutPack::Created)
    }

    /// Every pack of every owner, without the archives: a host loads them when it starts.
    pub async fn all_packs(&self) -> Result<Vec<StoredPack>, StoreError> {
        let offers = RecordQuery::all(Kind::PackOffer, Within::Everywhere);
        let mut offered = BTreeMap::new();
        for record in self.store.scan(&offers).await? {
            let OfferBody { digest } = record.read()?;
            offered.insert(record.key, digest);
        }
        let mut packs = Vec::new();
        for record in self.store.scan(&RecordQuery::all(Kind::Pack, Within::Everywhere)).await? {
            let mut pack = StoredPack::read(&record)?;
            pack.is_removed = offered.get(&pack.id.key()) != Some(&pack.digest);
            packs.push(pack);
        }
        packs.sort_by(|one, other| {
            let place = |pack: &StoredPack| {
                let id = &pack.id;
                let is_host = id.owner == PackOwner::Host;
                let named = (id.name.as_str().to_owned(), id.version.as_str().to_owned());
                (named, is_host, id.place(), pack.installed_at)
            };
            place(one).cmp(&place(other))
        });
        Ok(packs)
    }

    pub async fn pack_archive(
        &self,
        id: &PackId,
        digest: &Digest,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.store.blob(Kind::Pack, &id.archive_key(digest)).await
    }

    /// Takes a pack out of what is offered; runs that keep it still find it. Answers whether there was one.
    pub async fn remove_pack(&self, id: &PackId) -> Result<bool, StoreError> {
        let gone = RecordChange::delete(Kind::PackOffer, id.key()).expecting(Expected::Present);
        match self.store.commit(Batch::of_records([gone])).await {
            Ok(()) => Ok(true),
            Err(StoreError::Moved { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The digest of what is offered under a version, and the version of the record that says so.
    async fn offer(&self, id: &PackId) -> Result<Option<(Digest, u64)>, StoreError> {
        let Some(record) = self.store.get(Kind::PackOffer, &id.key()).await? else {
            return Ok(None);
        };
        let OfferBody { digest } = record.read()?;
        Ok(Some((digest, record.version)))
    }
}
