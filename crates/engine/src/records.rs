//! Records: typed things at rest beside the runs (a member, a schedule, a subscription, a prompt, a key …).
//!
//! A store keeps and finds them and compares versions; it knows none of their rules. A kind's body is JSON, sealed at
//! rest. An old reader ignores fields that it does not know, a new reader defaults those that an old body lacks, and an
//! old writer drops new fields: one whose loss would do harm needs a kind of its own.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use callboard_protocol::{RunId, Timestamp};

use crate::elsewhere::Cache;
use crate::store::{Realm, Scope, StoreError};

/// Makes a kind of each line, so that none is missing from the list of all.
macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident = $name:literal,)+) => {
        /// What a record is. The name of a kind is stored, and is never given to another.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$meta])* $kind,)+
        }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    Annotation = "annotation",
    ApiKey = "api-key",
    /// A file that came along with what a run was made of.
    Attachment = "attachment",
    /// A signed root over entries of the audit log.
    AuditCheckpoint = "audit-checkpoint",
    AuditEntry = "audit-entry",
    /// Where the audit log of a tenant has come to.
    AuditHead = "audit-head",
    BudgetGrant = "budget-grant",
    CodingSession = "coding-session",
    Commitment = "commitment",
    /// A browser that is signed in at the console.
    ConsoleSession = "console-session",
    /// What a member may use in a day.
    DailyLimit = "daily-limit",
    Deployment = "deployment",
    /// The attempts of an outward call.
    EffectLedger = "effect-ledger",
    Envelope = "envelope",
    ExpiredMemorySnapshot = "expired-memory-snapshot",
    /// The newest version of a path, without its content.
    File = "file",
    FileCount = "file-count",
    FileVersion = "file-version",
    FileWrite = "file-write",
    Heartbeat = "heartbeat",
    /// A run that retention leaves alone.
    KeptRun = "kept-run",
    /// When a key was used last.
    KeyUse = "key-use",
    LinkGeneration = "link-generation",
    Maker = "maker",
    /// A standing member of a roster.
    Member = "member",
    OrgChart = "org-chart",
    /// One archive of a version of a pack.
    Pack = "pack",
    /// Which archive is offered under a version.
    PackOffer = "pack-offer",
    Projection = "projection",
    Prompt = "prompt",
    Reservation = "reservation",
    /// A name for a set of scopes.
    Role = "role",
    Schedule = "schedule",
    Secret = "secret",
    /// Decisions about a run that did not come to their end.
    Strikes = "strikes",
    /// A value that workflows keep under a name.
    StoredValue = "stored-value",
    StoredValueCount = "stored-value-count",
    /// The result of a change to one, for a repeat of the same call.
    StoredValueWrite = "stored-value-write",
    /// A trigger subscription, with what its senders sign with.
    Subscription = "subscription",
    /// Something that came in over a subscription.
    InboundDelivery = "inbound-delivery",
    /// An inbound delivery that was given up, with its content.
    InboundDeadLetter = "inbound-dead-letter",
    /// The posts of one subscription that were refused last.
    RefusedPosts = "refused-posts",
    /// How many deliveries of one subscription its filter has left out, and the last of them.
    FilteredPosts = "filtered-posts",
    /// An item of work that begins as soon as its member takes something.
    WaitingWork = "waiting-work",
    /// Which events a webhook receives, and the secret that signs its deliveries.
    Webhook = "webhook",
    /// How far all logs were planned for webhooks.
    WebhookCursor = "webhook-cursor",
    /// An event on its way to a webhook.
    WebhookDelivery = "webhook-delivery",
    /// When the next delivery of a webhook can be made.
    WebhookQueue = "webhook-queue",
    WebhookDeadLetter = "webhook-dead-letter",
    /// A question on its way to its run's own address.
    Callback = "callback",
    WorkItem = "work-item",
    /// A registered definition.
    Workflow = "workflow",
}

impl Kind {
    /// What every process keeps in memory of this kind: a change of one is seen by those of other hosts, too.
    pub const fn cache(self) -> Option<Cache> {
        match self {
            Self::ApiKey | Self::Role => Some(Cache::Keys),
            Self::Pack | Self::PackOffer => Some(Cache::Packs),
            _ => None,
        }
    }

    /// Whether a store may answer reads of this kind from what it read before, as long as it has written none of it:
    /// for what is read much more often than it changes.
    pub const fn is_cached(self) -> bool {
        matches!(
            self,
            Self::BudgetGrant
                | Self::DailyLimit
                | Self::Deployment
                | Self::File
                | Self::LinkGeneration
                | Self::Member
                | Self::Prompt
                | Self::Subscription
                | Self::Webhook
                | Self::Workflow
        )
    }
}

/// The name of a record, unique in its kind. Records are listed in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Joins the parts so that no two lists of parts give the same key, whatever the parts hold.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let escape = |part: &str| part.replace('~', "~0").replace('/', "~1");
        Self(parts.into_iter().map(escape).collect::<Vec<_>>().join("/"))
    }

    /// The key of what all workspaces of a tenant share under such keys.
    pub fn in_realm<'a>(realm: &'a Realm, parts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of([realm.tenant.as_str(), realm.mode.as_str()].into_iter().chain(parts))
    }

    /// The key of what stands in exactly one place.
    pub fn in_place<'a>(place: &'a Scope, parts: impl IntoIterator<Item = &'a str>) -> Self {
        let workspace = place.workspace.as_ref().map_or("", |workspace| workspace.as_str());
        let place = [place.tenant.as_str(), place.mode.as_str(), workspace];
        Self::of(place.into_iter().chain(parts))
    }

    /// What lies between the keys that begin with these parts and go on, in the order of keys: the first and the last
    /// of them come after the one and before the other.
    pub fn bounds_below(&self) -> (String, String) {
        // A part holds no slash, so whatever goes on begins with one, and a nought is what follows a slash.
        (format!("{}/", self.0), format!("{}0", self.0))
    }

    /// What comes after all keys that begin with these parts and go on, and before any other.
    pub(crate) fn end_below(&self) -> Self {
        Self(self.bounds_below().1)
    }

    /// The last of the parts that the key was made of.
    pub fn last_part(&self) -> Option<String> {
        let last = self.0.rsplit('/').next()?;
        Some(last.replace("~1", "/").replace("~0", "~"))
    }

    /// A key as it was stored.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub key: Key,
    pub place: Scope,
    /// Starts at one and grows by one with every change.
    pub version: u64,
    /// The order in which records were first written, over all kinds.
    pub position: u64,
    pub due_at: Option<Timestamp>,
    /// JSON; empty where it cannot be opened, so that one damaged record does not hide the others.
    pub body: Arc<str>,
}

impl Record {
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_str(&self.body).map_err(|error| StoreError::Unreadable {
            what: format!("{} {}", self.kind.as_str(), self.key),
            why: error.to_string(),
        })
    }
}

/// What must be true of a record for a batch to be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Anything,
    Absent,
    Present,
    Version(u64),
}

impl Expected {
    /// That it still stands as it was read.
    pub fn of(read: Option<&Record>) -> Self {
        read.map_or(Self::Absent, |record| Self::Version(record.version))
    }

    /// The comparison that every store makes, with the version of the record that is there.
    pub fn holds(self, version: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => version.is_none(),
            Self::Present => version.is_some(),
            Self::Version(expected) => version == Some(expected),
        }
    }
}

/// What records are found by whose member is named: all of a kind go with it.
pub const MEMBER: IndexName = IndexName("member");
/// What records of one workflow are found by.
pub const WORKFLOW: IndexName = IndexName("workflow");

/// Which of a kind's values an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexName(&'static str);

impl IndexName {
    /// The entry names its tenant too, so that nobody's page is longer for what others have under the same name.
    pub fn of(self, realm: &Realm, value: &str) -> IndexEntry {
        let value = Key::in_realm(realm, [value]).0;
        IndexEntry { name: self.0, value }
    }
}

/// A value that records are found by. The name says which of a kind's values it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexEntry {
    pub name: &'static str,
    pub value: String,
}

/// One change of a record, or only the expectation that it stands as it was read.
#[derive(Debug, Clone)]
pub struct RecordChange {
    pub kind: Kind,
    pub key: Key,
    pub expected: Expected,
    pub write: RecordWrite,
}

#[derive(Debug, Clone)]
pub enum RecordWrite {
    Nothing,
    Put {
        place: Scope,
        body: String,
        due_at: Option<Timestamp>,
        indexed: Vec<IndexEntry>,
        run: Option<RunLink>,
        /// What is too large to be read with the record; none leaves what there is.
        blob: Option<Arc<[u8]>>,
    },
    Delete,
}

/// The run that a record is about. When retention removes the run, the record goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLink {
    pub run: RunId,
    /// Whether the run must stay as long as this record is there.
    pub retains: bool,
}

impl RecordChange {
    /// Writes the body, whatever was there; [`Self::expecting`] says otherwise.
    pub fn put(
        kind: Kind,
        key: Key,
        place: Scope,
        body: &impl Serialize,
    ) -> Result<Self, StoreError> {
        let body = serde_json::to_string(body).map_err(|error| {
            StoreError::Unavailable(format!("{} {key} cannot be written: {error}", kind.as_str()))
        })?;
        let (due_at, indexed, run, blob) = (None, Vec::new(), None, None);
        let write = RecordWrite::Put { place, body, due_at, indexed, run, blob };
        Ok(Self { kind, key, expected: Expected::Anything, write })
    }

    pub fn delete(kind: Kind, key: Key) -> Self {
        Self { kind, key, expected: Expected::Anything, write: RecordWrite::Delete }
    }

    /// Changes nothing; refuses the batch where the expectation does not hold.
    pub fn check(kind: Kind, key: Key, expected: Expected) -> Self {
        Self { kind, key, expected, write: RecordWrite::Nothing }
    }

    #[must_use]
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.expected = expected;
        self
    }

    /// When the record is due; only [`Self::put`] can say so.
    #[must_use]
    pub fn due(mut self, at: Option<Timestamp>) -> Self {
        if let RecordWrite::Put { due_at, .. } = &mut self.write {
            *due_at = at;
        }
        self
    }

    /// Makes the record found by a value; only [`Self::put`] can say so.
    #[must_use]
    pub fn indexed(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let RecordWrite::Put { indexed, .. } = &mut self.write {
            indexed.push(IndexEntry { name, value: value.into() });
        }
        self
    }

    /// Makes the record go when its run goes; only [`Self::put`] can say so.
    #[must_use]
    pub fn of_run(self, run: &RunId) -> Self {
        self.linked(RunLink { run: run.clone(), retains: false })
    }

    /// Keeps the run as long as the record is there; only [`Self::put`] can say so.
    #[must_use]
    pub fn retaining_run(self, run: &RunId) -> Self {
        self.linked(RunLink { run: run.clone(), retains: true })
    }

    /// Keeps bytes with the record that are read only by [`Store::blob`](crate::Store::blob) and go with it; only
    /// [`Self::put`] can say so.
    #[must_use]
    pub fn with_blob(mut self, bytes: Arc<[u8]>) -> Self {
        if let RecordWrite::Put { blob, .. } = &mut self.write {
            *blob = Some(bytes);
        }
        self
    }

    fn linked(mut self, link: RunLink) -> Self {
        if let RecordWrite::Put { run, .. } = &mut self.write {
            *run = Some(link);
        }
        self
    }

    /// The same for entries that were made elsewhere.
    #[must_use]
    pub fn found_by(mut self, entries: impl IntoIterator<Item = IndexEntry>) -> Self {
        if let RecordWrite::Put { indexed, .. } = &mut self.write {
            indexed.extend(entries);
        }
        self
    }

    /// What a batch is refused with where the expectation does not hold.
    pub fn moved(&self) -> StoreError {
        StoreError::Moved { what: format!("{} {}", self.kind.as_str(), self.key) }
    }
}

/// Where the records that a query asks for are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Within {
    /// With every tenant: for the host itself.
    Everywhere,
    Realm(Realm),
    /// What a caller with this scope may see.
    VisibleTo(Scope),
    /// In this place alone, and not in the workspaces below it.
    Place(Scope),
}

impl Within {
    pub fn includes(&self, place: &Scope) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Realm(realm) => place.realm() == *realm,
            Self::VisibleTo(scope) => scope.includes(place),
            Self::Place(exact) => place == exact,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyOrder {
    Ascending,
    Descending,
}

/// Records of one kind, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordQuery {
    pub kind: Kind,
    pub within: Within,
    /// Only those with this value.
    pub index: Option<IndexEntry>,
    /// Only those whose keys begin with these parts and go on.
    pub below: Option<Key>,
    pub order: KeyOrder,
    /// Only those that come after this key in the order.
    pub after: Option<Key>,
    pub limit: usize,
}

impl RecordQuery {
    /// Everything of a kind within a place.
    pub fn all(kind: Kind, within: Within) -> Self {
        Self {
            kind,
            within,
            index: None,
            below: None,
            order: KeyOrder::Ascending,
            after: None,
            limit: usize::MAX,
        }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.index = Some(IndexEntry { name, value: value.into() });
        self
    }

    #[must_use]
    pub fn below(mut self, key: Key) -> Self {
        self.below = Some(key);
        self
    }

    #[must_use]
    pub fn found_by(mut self, entry: IndexEntry) -> Self {
        self.index = Some(entry);
        self
    }

    #[must_use]
    pub fn after(mut self, key: Option<Key>) -> Self {
        self.after = key;
        self
    }

    #[must_use]
    pub fn descending(mut self) -> Self {
        self.order = KeyOrder::Descending;
        self
    }

    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// Records that are due by now, the longest due first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueRecords {
    pub records: Vec<Record>,
    /// When the next record that is not due yet becomes so.
    pub next: Option<Timestamp>,
}

/// How often something is decided again because another writer was faster. Each time, one of them has come through.
const MOST_TRIES: usize = 100;

/// Counts how often something was read, decided and committed.
#[derive(Debug, Default)]
pub(crate) struct Tries(usize);

impl Tries {
    /// Whether it is to be decided again: another writer was faster, and not too often yet.
    pub(crate) fn again<T>(&mut self, outcome: &Result<T, StoreError>) -> bool {
        self.0 += 1;
        self.0 < MOST_TRIES && matches!(outcome, Err(StoreError::Moved { .. }))
    }
}

/// Reads and decides anew for as long as another writer changes first what an attempt was decided on.
pub(crate) async fn retry_moved<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut tries = Tries::default();
    loop {
        let outcome = attempt().await;
        if !tries.again(&outcome) {
            return outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_different_parts_differ() {
        assert_ne!(Key::of(["a/b", "c"]), Key::of(["a", "b/c"]));
        assert_ne!(Key::of(["a~1b"]), Key::of(["a/b"]));
        assert_eq!(Key::of(["acme", "live", "x"]).as_str(), "acme/live/x");
        assert_eq!(Key::of(["a", "b/c~1"]).last_part().as_deref(), Some("b/c~1"));
    }

    #[test]
    fn what_is_below_a_key_begins_with_its_parts() {
        let (first, last) = Key::of(["a"]).bounds_below();
        let is_below = |key: Key| key.as_str() > first.as_str() && key.as_str() < last.as_str();
        assert!(is_below(Key::of(["a", "b"])) && is_below(Key::of(["a", "~", "c"])));
        for other in [Key::of(["a"]), Key::of(["a0"]), Key::of(["a.b"]), Key::of(["ab", "c"])] {
            assert!(!is_below(other.clone()), "{other}");
        }
    }
}
