//! All keys in memory, found by their text or by their id.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use callboard_engine::{Digest, StoredKey};
use callboard_protocol::{KeyId, Principal, Timestamp};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::principal_of;
use super::roles::{Grant, RoleTable};

/// Enough of a digest to find its key, too little to be one.
const PREFIX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Table {
    by_prefix: HashMap<[u8; PREFIX], Vec<Known>>,
    by_id: HashMap<KeyId, Known>,
    identities: Vec<KeyId>,
    pub(super) roles: Arc<RoleTable>,
}

/// One key as the ring knows it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) key: Arc<StoredKey>,
    pub(crate) origin: KeyOrigin,
    /// What it may do, its roles included.
    pub(crate) grant: Arc<Grant>,
    /// Cancelled when the key is revoked or may do less, so that its open streams end.
    pub(super) revoked: CancellationToken,
    pub(super) used: Arc<Used>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrigin {
    Configured,
    Stored,
    /// Somebody whom an issuer vouches for.
    Issuer,
}

/// When a key was used last in this process, and what of that was written down. Milliseconds; zero is never.
#[derive(Debug, Default)]
pub(super) struct Used {
    at: AtomicI64,
    noted: AtomicI64,
    /// When its roles were written down, where an issuer says them.
    roles_noted: AtomicI64,
}

impl Used {
    pub(super) fn now(&self, at: Timestamp) {
        self.at.fetch_max(at.as_millis(), Ordering::Relaxed);
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        let at = self.at.load(Ordering::Relaxed);
        (at > 0).then(|| Timestamp::from_millis(at))
    }

    /// Whether its roles were written down long enough ago.
    pub(super) fn may_note(&self, now: Timestamp, every: Duration) -> bool {
        now.since(Timestamp::from_millis(self.roles_noted.load(Ordering::Relaxed))) > every
    }

    pub(super) fn note(&self, now: Timestamp) {
        self.roles_noted.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// What was not written down yet.
    pub(super) fn unnoted(&self) -> Option<Timestamp> {
        self.at().filter(|at| at.as_millis() > self.noted.load(Ordering::Relaxed))
    }

    pub(super) fn noted(&self, at: Timestamp) {
        self.noted.fetch_max(at.as_millis(), Ordering::Relaxed);
    }
}

impl Known {
    /// Somebody came in with it.
    pub(crate) fn is_used(&self, at: Timestamp) {
        self.used.now(at);
    }

    /// Who a caller with it is.
    pub(crate) fn principal(&self) -> Principal {
        match (self.origin, &self.key.votes_as) {
            (KeyOrigin::Issuer, Some(somebody)) => somebody.clone(),
            _ => principal_of(&self.key.id),
        }
    }
}

impl Table {
    pub(super) fn new(roles: Arc<RoleTable>) -> Self {
        Self { roles, ..Self::default() }
    }

    pub(super) fn insert(&mut self, known: Known) {
        if known.origin != KeyOrigin::Issuer {
            self.by_prefix.entry(prefix(&known.key.digest)).or_default().push(known.clone());
        } else {
            self.identities.push(known.key.id.clone());
        }
        self.by_id.insert(known.key.id.clone(), known);
    }

    pub(super) fn find(&self, digest: &Digest) -> Option<Known> {
        let candidates = self.by_prefix.get(&prefix(digest))?;
        candidates.iter().find(|known| bool::from(known.key.digest.ct_eq(digest))).cloned()
    }

    pub(super) fn by_id(&self, id: &KeyId) -> Option<&Known> {
        self.by_id.get(id)
    }

    /// Those whom issuers vouch for.
    pub(super) fn identities(&self) -> impl Iterator<Item = &Known> {
        self.identities.iter().filter_map(|id| self.by_id.get(id))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Known> {
        self.by_id.values()
    }
}

fn prefix(digest: &Digest) -> [u8; PREFIX] {
    std::array::from_fn(|index| digest[index])
}
