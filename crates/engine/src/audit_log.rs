//! The audit log: what changed access or policy, who signed in, who was refused. One chain of entries for each tenant and
//! kind of key, with signed checkpoints; nothing here ever changes or goes.
//!
//! Who wraps a store with [`audited`] writes the entry of a change in the transaction of the change.

mod chain;
mod facts;
mod keep;
mod verify;

use std::fmt;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use serde::Serialize;
use serde_json::Value;

use callboard_protocol::Timestamp;

use crate::records::{Key, KeyOrder, Kind, Record, RecordQuery, Within};
use crate::store::{Batch, Realm, Scope, Store, StoreError};

pub use chain::{AuditCheckpoint, AuditEntry};
pub use facts::{Actor, AuditFact};
pub use keep::{CheckpointLoop, audited};
pub use verify::{AuditAnomaly, AuditVerification};

/// The most entries between two checkpoints, and the longest that an entry waits for one.
pub const CHECKPOINT_ENTRIES: u64 = 1000;
pub const CHECKPOINT_SECONDS: u64 = 300;

/// Before the 32 bytes of a public key in its usual form (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Reads the audit log, and adds what is no change of anything stored.
#[derive(Clone)]
pub struct AuditLog {
    store: Arc<dyn Store>,
    key: SigningKey,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

/// Which entries are read, and in which order.
#[derive(Debug, Clone)]
pub struct AuditQuery {
    pub order: KeyOrder,
    /// Only those that come after this sequence in the order.
    pub after: Option<u64>,
    pub limit: usize,
}

/// One entry as it is kept, with its hash. One that cannot be read is there with its sequence alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptEntry {
    pub sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// As it was written, also by a newer version.
    pub entry: Value,
}

impl AuditLog {
    /// `store` is one that [`audited`] made, or else nothing is noted.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let key = signing_key(&*store);
        Self { store, key }
    }

    /// What checkpoints are verified with, in DER.
    pub fn public_key(&self) -> Vec<u8> {
        [SPKI.as_slice(), self.key.verifying_key().as_bytes()].concat()
    }

    pub async fn note(&self, fact: AuditFact) -> Result<(), StoreError> {
        self.store.commit(Batch { facts: vec![fact], ..Batch::default() }).await
    }

    /// The entries that a caller may see.
    pub async fn entries(
        &self,
        scope: &Scope,
        query: &AuditQuery,
    ) -> Result<Vec<KeptEntry>, StoreError> {
        let realm = scope.realm();
        let mut asked = RecordQuery::all(Kind::AuditEntry, Within::VisibleTo(scope.clone()))
            .below(head_key(&realm))
            .after(query.after.map(|sequence| numbered(&realm, sequence)))
            .limit(query.limit);
        asked.order = query.order;
        Ok(self.store.scan(&asked).await?.iter().map(KeptEntry::of).collect())
    }
}

impl KeptEntry {
    fn of(record: &Record) -> Self {
        let sequence = sequence_of(record).unwrap_or_default();
        let entry = chain::stored(record).unwrap_or_default();
        Self { sequence, hash: chain::hash(&entry), entry }
    }
}

/// Apart from every other key, and the same on all hosts of a database.
fn signing_key(store: &dyn Store) -> SigningKey {
    SigningKey::from_bytes(&store.derive("audit-checkpoints"))
}

/// Where the chain of a realm has come to; its entries and checkpoints are below it.
fn head_key(realm: &Realm) -> Key {
    Key::in_realm(realm, [])
}

/// As many digits as a sequence can have, so that keys are in the order of sequences.
fn numbered(realm: &Realm, sequence: u64) -> Key {
    Key::in_realm(realm, [format!("{sequence:020}").as_str()])
}

fn sequence_of(record: &Record) -> Option<u64> {
    record.key.last_part()?.parse().ok()
}

/// When the entries that a checkpoint does not cover yet must have one.
fn checkpoint_due(since: Timestamp) -> Timestamp {
    since.plus(std::time::Duration::from_secs(CHECKPOINT_SECONDS))
}
