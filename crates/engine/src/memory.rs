//! What a tenant remembers: a journal of versions, in which nothing is overwritten.

mod commitment;
mod draft;
mod keeper;
mod recall;
mod summary;
mod upkeep;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use callboard_core::MemoryView;
use callboard_protocol::{
    HeartbeatId, MemoryEntry, MemoryId, NodeId, Principal, Remembered, RunId, Timestamp,
};

use crate::records::{Key, Kind, RecordChange};
use crate::store::{Batch, Realm, Scope, Store, StoreError};

pub(crate) use draft::check_memory_ref;
pub use draft::{Due, Lifetime, MAX_MEMORY_BYTES, MemoryDraft, MemoryError, unreached};
pub use keeper::Keeper;
pub use recall::{MemoryAccess, Wanted};
pub(crate) use recall::{Shared, rows_of};
pub(crate) use summary::summary_rows;
pub use upkeep::{MAX_TOKEN_BUDGET, TOKENIZER, Upkeep, UpkeepError};

/// What is remembered, per tenant. Runs write to it together with the events of the writes.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Arc<dyn Store>,
}

/// One change of what is remembered, as a part of a [`crate::Batch`].
#[derive(Debug, Clone)]
pub enum MemoryWrite {
    Entry {
        owner: Scope,
        row: MemoryRow,
    },
    /// Erases every version of an entry that the scope may see, also for forks of the past.
    Forget {
        scope: Scope,
        id: MemoryId,
    },
}

impl Memory {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// How far the journal of a tenant has come. Every later row of it stands behind this.
    pub async fn position(&self, realm: &Realm) -> Result<u64, StoreError> {
        self.store.memory_position(realm).await
    }

    /// Finds entries that the caller may see and that have not expired, as `query` orders them.
    pub async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.store.recall(scope, query).await
    }

    /// Every version of an entry, newest first; none for an entry that the caller may not see.
    pub async fn history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        self.store.memory_history(scope, id).await
    }

    /// Places of every tenant in which more than `most` entries stand that never expire.
    pub async fn crowded(&self, most: u64) -> Result<Vec<CrowdedMemory>, StoreError> {
        self.store.crowded_memory(most).await
    }

    /// Writes a version of an entry that exists, from outside a run. [`StoreError::Moved`] where the entry is not at
    /// the version that this was decided on.
    pub async fn amend(&self, scope: &Scope, row: MemoryRow) -> Result<MemoryRecord, StoreError> {
        let moved = || StoreError::Moved { what: format!("entry {}", row.id) };
        let newest = self.newest(scope, &row.id).await?;
        let owner = newest.filter(|newest| newest.version == row.expected).ok_or_else(moved)?.owner;
        let records = vec![commitment::change(&owner, &row)?];
        let written = MemoryWrite::Entry { owner, row: row.clone() };
        self.store.commit(Batch { memory: vec![written], records, ..Batch::default() }).await?;
        let written = self.history(scope, &row.id).await?.into_iter();
        // Somebody may have forgotten it at once; that is theirs to say.
        let mut written = written.filter(|version| version.version == row.expected + 1);
        written.next().ok_or_else(moved)
    }

    /// Erases every version of an entry, also for forks of the past. Answers whether there was one.
    pub async fn forget(&self, scope: &Scope, id: &MemoryId) -> Result<bool, StoreError> {
        let Some(newest) = self.newest(scope, id).await? else { return Ok(false) };
        let records = vec![commitment::withdraw(&newest.owner, id)];
        let forget = MemoryWrite::Forget { scope: scope.clone(), id: id.clone() };
        self.store.commit(Batch { memory: vec![forget], records, ..Batch::default() }).await?;
        Ok(true)
    }

    /// Lets go of what a run saw of memory: it cannot be forked any more. Answers whether there is such a run.
    pub async fn expire_snapshot(&self, scope: &Scope, run: &RunId) -> Result<bool, StoreError> {
        if self.store.find(scope, run).await?.is_none() {
            return Ok(false);
        }
        let expired = RecordChange::put(
            Kind::ExpiredMemorySnapshot,
            Key::of([run.as_str()]),
            scope.clone(),
            &(),
        )?;
        self.store.commit(Batch::of_records([expired.of_run(run)])).await?;
        Ok(true)
    }

    /// Whether what a run saw of memory can still be rebuilt.
    pub async fn has_snapshot(&self, run: &RunId) -> Result<bool, StoreError> {
        let key = Key::of([run.as_str()]);
        Ok(self.store.get(Kind::ExpiredMemorySnapshot, &key).await?.is_none())
    }

    async fn newest(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Option<MemoryRecord>, StoreError> {
        Ok(self.history(scope, id).await?.into_iter().next())
    }
}

/// What is written with the events of rows that a run remembers.
pub fn add_memory(
    batch: &mut Batch,
    owner: &Scope,
    rows: Vec<MemoryRow>,
) -> Result<(), StoreError> {
    for row in rows {
        batch.records.push(commitment::change(owner, &row)?);
        batch.memory.push(MemoryWrite::Entry { owner: owner.clone(), row });
    }
    Ok(())
}

/// Something that is remembered until its time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    pub owner: Scope,
    pub id: MemoryId,
    pub version: u64,
    pub memory_ref: String,
    pub due_at: Timestamp,
    /// The heartbeat that it waited for.
    pub due_on: Option<HeartbeatId>,
    pub expires_at: Option<Timestamp>,
    /// The version of its record.
    pub(crate) standing: u64,
}

/// What agents say within a run is remembered under such names. It is the run's own, and nobody else's to tidy.
pub const CONVERSATIONS: &str = "conversation/";

/// A place in which many entries stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdedMemory {
    pub owner: Scope,
    pub scope_id: String,
    pub memory_ref: String,
    /// The position of the newest of them.
    pub newest: u64,
}

/// One version of an entry, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    pub id: MemoryId,
    /// The version that this was decided on; zero for an entry that is new.
    pub expected: u64,
    /// Which of the tenant's memories.
    pub scope_id: String,
    /// The name within it.
    pub memory_ref: String,
    /// The oldest run above the one that writes: until they join, its relatives do not see this.
    pub family: Option<RunId>,
    pub content: String,
    pub tags: Vec<String>,
    /// By the writer's own clock.
    pub at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub author: MemoryAuthor,
    /// The entries that this one was made from.
    pub sources: Vec<MemoryId>,
    /// When its commitment is due. A later version that says nothing takes that back.
    pub due: Option<Due>,
    /// Versions of other entries that this one stands for from now on. [`StoreError::Moved`] where one of them is not
    /// the newest of its entry any more.
    pub absorbs: Vec<Remembered>,
}

/// Who wrote a version.
///
/// Stored as JSON. An old reader ignores fields that it does not know; a new reader defaults those that an old row
/// lacks; nobody rewrites a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryAuthor {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// A person, where no run wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
}

/// One version of an entry, as it stands in the journal. Serialises as people read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryRecord {
    pub id: MemoryId,
    #[serde(skip)]
    pub owner: Scope,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope_id: String,
    pub memory_ref: String,
    pub content: String,
    pub tags: Vec<String>,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<u64>,
    pub written_at: Timestamp,
    pub author: MemoryAuthor,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<MemoryId>,
    #[serde(skip)]
    pub family: Option<RunId>,
    #[serde(skip)]
    pub position: u64,
    /// The position of what stands in its place: the next version, or an entry that it was absorbed into.
    #[serde(skip)]
    pub superseded_by: Option<u64>,
    /// The position of the entry's first version, which is its place in a list.
    #[serde(skip)]
    pub first: u64,
}

impl MemoryRecord {
    /// The entry as the protocol knows it.
    pub fn entry(self) -> MemoryEntry {
        MemoryEntry {
            id: self.id,
            content: self.content,
            tags: self.tags,
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }

    /// Whether the entry still is there for a reader at that time.
    pub fn lives_at(&self, at: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > at)
    }

    /// Whether the entry is what a query asks for, but for who asks and when.
    pub fn answers(&self, query: &MemoryQuery) -> bool {
        let place = match &query.place {
            Place::Anywhere => true,
            Place::Exactly { scope_id, memory_ref } => {
                self.scope_id == *scope_id && self.memory_ref == *memory_ref
            }
            Place::Named(name) => self.scope_id == *name || self.memory_ref == *name,
        };
        place
            && self.lives_at(query.looked_at(self))
            && query.id.as_ref().is_none_or(|id| *id == self.id)
            && query.tag.as_ref().is_none_or(|tag| self.tags.contains(tag))
            && query.before.is_none_or(|before| query.place_of(self) < before)
            && query.text.as_ref().is_none_or(|text| mentions(&self.content, text))
    }
}

/// Which entries are asked for.
#[derive(Debug, Clone)]
pub struct MemoryQuery {
    pub place: Place,
    pub id: Option<MemoryId>,
    pub tag: Option<String>,
    /// Words that must all occur in the content. One without words finds nothing.
    pub text: Option<String>,
    /// Only entries that stand after this place in the list.
    pub before: Option<u64>,
    pub limit: usize,
    /// When it is asked: what has expired by then is not there.
    pub at: Timestamp,
    /// What a run sees; none for what stands there now.
    pub seen: Option<Seen>,
}

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In everything that the caller may see.
    Anywhere,
    Exactly {
        scope_id: String,
        memory_ref: String,
    },
    /// In the scope or under the reference of that name.
    Named(String),
}

/// A run's own view, and the family whose unfinished members it does not see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub view: MemoryView,
    pub family: Option<RunId>,
    /// As [`callboard_core::MemoryBirth::anchors`].
    pub anchors: Vec<Timestamp>,
}

impl MemoryQuery {
    pub fn new(place: Place, at: Timestamp, limit: usize) -> Self {
        let (id, tag, text, before, seen) = (None, None, None, None, None);
        Self { place, id, tag, text, before, limit, at, seen }
    }

    /// When an entry must not have expired: for what a fork's source saw, when its history was left.
    fn looked_at(&self, record: &MemoryRecord) -> Timestamp {
        let mut anchors = self.seen.iter().flat_map(|seen| &seen.anchors);
        anchors.find(|anchor| record.written_at <= **anchor).copied().unwrap_or(self.at)
    }

    /// Whatever expired before this is there for nobody.
    pub fn earliest(&self) -> Timestamp {
        let anchors = self.seen.iter().flat_map(|seen| &seen.anchors);
        anchors.copied().chain([self.at]).min().unwrap_or(self.at)
    }

    /// What orders the answer, greatest first: an entry's age, or, in a search for text, its last change.
    pub fn place_of(&self, record: &MemoryRecord) -> u64 {
        if self.text.is_some() { record.position } else { record.first }
    }
}

/// Entries expire when their writer said, and no later version makes them last longer.
pub fn next_expiry(before: Option<Timestamp>, asked: Option<Timestamp>) -> Option<Timestamp> {
    match (before, asked) {
        (Some(before), Some(asked)) => Some(before.min(asked)),
        (before, asked) => before.or(asked),
    }
}

/// The words of a text, as searches compare them.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let parts = text.split(|character: char| !character.is_alphanumeric());
    parts.filter(|part| !part.is_empty()).map(str::to_lowercase)
}

fn mentions(content: &str, text: &str) -> bool {
    let said: std::collections::BTreeSet<String> = words(content).collect();
    let mut asked = words(text).peekable();
    asked.peek().is_some() && asked.all(|word| said.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_version_makes_an_entry_last_longer() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        assert_eq!(next_expiry(None, None), None);
        assert_eq!(next_expiry(at(5), None), at(5));
        assert_eq!(next_expiry(None, at(7)), at(7));
        assert_eq!(next_expiry(at(5), at(7)), at(5));
        assert_eq!(next_expiry(at(5), at(3)), at(3));
    }

    #[test]
    fn a_search_compares_whole_words_in_any_order() {
        let content = "The invoice of Müller & Söhne, 42 EUR";
        for text in ["invoice", "söhne MÜLLER", "42"] {
            assert!(mentions(content, text), "{text}");
        }
        for text in ["", "-- !", "invoi", "invoice 43"] {
            assert!(!mentions(content, text), "{text}");
        }
    }
}
