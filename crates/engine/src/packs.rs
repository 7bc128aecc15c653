//! The port to installed packs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use callboard_protocol::{PackName, PackVersion, Timestamp};

use crate::store::{Digest, Realm, StoreError};

/// Packs by owner, name and version, of which one archive at a time is offered; those that were removed stay for
/// the runs that keep them. What is in an archive is not the store's business.
#[async_trait]
pub trait Packs: fmt::Debug + Send + Sync {
    /// Keeps a pack with its archive, or nothing. Of several at once one is first, and the others learn
    /// whether theirs was the same. The same archive again says anew what proves it, unless that is nothing.
    async fn put_pack(&self, pack: StoredPack, archive: Arc<[u8]>) -> Result<PutPack, StoreError>;
    /// Every pack of every owner, without the archives: a host loads them when it starts.
    async fn all_packs(&self) -> Result<Vec<StoredPack>, StoreError>;
    async fn pack_archive(
        &self,
        id: &PackId,
        digest: &Digest,
    ) -> Result<Option<Arc<[u8]>>, StoreError>;
    /// Takes a pack out of what is offered; runs that keep it still find it. Answers whether there was one.
    async fn remove_pack(&self, id: &PackId) -> Result<bool, StoreError>;
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

/// What is kept beside an archive. Of a row only `is_removed` and what proves it ever change: an older build ignores
/// what a newer one keeps beside it, a newer one does without what an older row lacks.
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
