//! Walks a chain again, page by page, and names every row that is not as it was written.

use std::collections::VecDeque;

use serde::Serialize;

use super::chain::{self, AuditCheckpoint, ChainHead, Tree};
use super::{AuditLog, CHECKPOINT_ENTRIES, head_key, numbered, sequence_of};
use crate::records::{Kind, Record, RecordQuery, Within};
use crate::store::{Realm, StoreError};

/// Rows in memory at one time.
const PAGE: usize = 500;
/// Rows that are named at most: of a chain that is spoiled as a whole, the first are enough.
const MOST_ANOMALIES: usize = 100;

/// What came of a walk. Closed in the protocol's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerification {
    pub from_seq: u64,
    pub to_seq: u64,
    pub chain_valid: bool,
    pub checkpoints_valid: bool,
    pub checkpoints: Vec<AuditCheckpoint>,
    pub anomalies: Vec<AuditAnomaly>,
}

/// A row that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditAnomaly {
    pub at_seq: u64,
    pub expected_prev_hash: String,
    /// Empty for a row that is missing or cannot be read.
    pub actual_prev_hash: String,
}

/// What stands for the hash before the first entry.
const NOTHING: &str = "null";

impl AuditLog {
    /// The sequence of the newest entry; none where the chain's end cannot be read.
    pub async fn newest(&self, realm: &Realm) -> Result<Option<u64>, StoreError> {
        Ok(self.head(realm).await?.map(|head| head.sequence))
    }

    /// Walks the entries from one sequence to another, both included.
    pub async fn verify(
        &self,
        realm: &Realm,
        from: u64,
        to: u64,
    ) -> Result<AuditVerification, StoreError> {
        let head = self.head(realm).await?;
        // What comes in meanwhile is walked the next time.
        let last = head.as_ref().map_or(to, |head| to.min(head.sequence));
        let first = self.first_walked(realm, from.max(1)).await?;
        let mut walk = Walk::new(first, from.max(1), last);
        walk.checkpoints_ahead = self.checkpoints(realm, first, last).await?;
        let mut after = first.saturating_sub(2);
        'pages: loop {
            let rows = self.rows(realm, after).await?;
            for row in &rows {
                let Some(sequence) = sequence_of(row).filter(|sequence| *sequence <= last) else {
                    break 'pages;
                };
                walk.row(sequence, row, self);
                after = sequence;
            }
            if rows.len() < PAGE || walk.anomalies.len() >= MOST_ANOMALIES {
                break;
            }
        }
        walk.end(head.as_ref(), self);
        let Walk { checkpoints_valid, checkpoints, anomalies, .. } = walk;
        let chain_valid = anomalies.is_empty() && checkpoints_valid;
        let (from_seq, to_seq) = (from, to);
        Ok(AuditVerification {
            from_seq,
            to_seq,
            chain_valid,
            checkpoints_valid,
            checkpoints,
            anomalies,
        })
    }

    /// As at the beginning where nothing was ever written; none where it is gone or cannot be read.
    async fn head(&self, realm: &Realm) -> Result<Option<ChainHead>, StoreError> {
        let key = head_key(realm);
        let read = || self.store.get(Kind::AuditHead, &key);
        let mut found = read().await?;
        if found.is_none() {
            if self.rows(realm, 0).await?.is_empty() {
                return Ok(Some(ChainHead::default()));
            }
            // The first entry may have come in between.
            found = read().await?;
        }
        Ok(found.and_then(|record| record.read().ok()))
    }

    /// Behind the checkpoint before, so that the tree of the next one can be made again.
    async fn first_walked(&self, realm: &Realm, from: u64) -> Result<u64, StoreError> {
        let query = of(Kind::AuditCheckpoint, realm, from).descending().limit(1);
        let before = self.store.scan(&query).await?.first().and_then(sequence_of);
        let first = before.unwrap_or(0) + 1;
        // A checkpoint that is too far away is not the one before.
        Ok(if from - first < CHECKPOINT_ENTRIES { first } else { from })
    }

    async fn checkpoints(
        &self,
        realm: &Realm,
        first: u64,
        to: u64,
    ) -> Result<VecDeque<(u64, Option<AuditCheckpoint>)>, StoreError> {
        let mut query = of(Kind::AuditCheckpoint, realm, first - 1).limit(PAGE);
        let mut found = VecDeque::new();
        loop {
            let rows = self.store.scan(&query).await?;
            let is_last = rows.len() < PAGE;
            for row in rows {
                let Some(sequence) = sequence_of(&row).filter(|it| *it <= to) else {
                    return Ok(found);
                };
                query.after = Some(row.key.clone());
                found.push_back((sequence, row.read().ok()));
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    async fn rows(&self, realm: &Realm, after: u64) -> Result<Vec<Record>, StoreError> {
        self.store.scan(&of(Kind::AuditEntry, realm, after).limit(PAGE)).await
    }
}

fn of(kind: Kind, realm: &Realm, after: u64) -> RecordQuery {
    let query = RecordQuery::all(kind, Within::Realm(realm.clone()));
    query.below(head_key(realm)).after(Some(numbered(realm, after)))
}

/// Where a walk has come to.
struct Walk {
    first: u64,
    from: u64,
    last: u64,
    /// The sequence that comes next.
    next: u64,
    /// The hash of the row before; none where that is not known.
    before: Option<String>,
    tree: Tree,
    /// Whether every leaf since the last checkpoint was there.
    is_whole: bool,
    checkpoints_ahead: VecDeque<(u64, Option<AuditCheckpoint>)>,
    checkpoints: Vec<AuditCheckpoint>,
    checkpoints_valid: bool,
    anomalies: Vec<AuditAnomaly>,
}

impl Walk {
    fn new(first: u64, from: u64, last: u64) -> Self {
        Self {
            first,
            from,
            last,
            next: first,
            before: (first == 1).then(|| NOTHING.to_owned()),
            tree: Tree::default(),
            is_whole: true,
            checkpoints_ahead: VecDeque::new(),
            checkpoints: Vec::new(),
            checkpoints_valid: true,
            anomalies: Vec::new(),
        }
    }

    fn row(&mut self, sequence: u64, row: &Record, log: &AuditLog) {
        let entry = chain::stored(row).unwrap_or_default();
        let hash = chain::hash(&entry);
        // The row before the first is there for its hash alone.
        if sequence < self.first {
            self.before = hash;
            return;
        }
        while self.next < sequence && self.anomalies.len() < MOST_ANOMALIES {
            self.lost(log);
        }
        self.next = sequence;
        let says = entry["sequence"].as_u64() == Some(sequence);
        let Some(hash) = hash.filter(|_| says) else { return self.lost(log) };
        let actual = entry["prevHash"].as_str().unwrap_or(NOTHING).to_owned();
        if let Some(expected) = self.before.take().filter(|expected| *expected != actual) {
            self.name(sequence, expected, actual);
        }
        self.tree.push(hash.clone());
        self.before = Some(hash);
        self.pass(log);
    }

    /// A row that is missing, cannot be read, or stands in another's place.
    fn lost(&mut self, log: &AuditLog) {
        let expected = self.before.take().unwrap_or_else(|| NOTHING.to_owned());
        self.name(self.next, expected, String::new());
        self.is_whole = false;
        self.pass(log);
    }

    fn name(&mut self, at_seq: u64, expected_prev_hash: String, actual_prev_hash: String) {
        if at_seq >= self.from {
            self.anomalies.push(AuditAnomaly { at_seq, expected_prev_hash, actual_prev_hash });
        }
    }

    /// Goes on to the next sequence, over the checkpoint that stands at this one.
    fn pass(&mut self, log: &AuditLog) {
        let at = self.next;
        self.next += 1;
        if self.checkpoints_ahead.front().is_none_or(|(place, _)| *place > at) {
            let is_late = self.is_whole && self.tree.leaves() > CHECKPOINT_ENTRIES;
            self.checkpoints_valid &= !is_late;
            return;
        }
        let checkpoint = self.checkpoints_ahead.pop_front().and_then(|(_, checkpoint)| checkpoint);
        let tree = std::mem::take(&mut self.tree);
        let root = tree.root().filter(|_| std::mem::replace(&mut self.is_whole, true));
        let is_sound = |it: &AuditCheckpoint| {
            it.at_sequence == at
                && root.as_ref().is_none_or(|root| *root == it.merkle_root)
                && it.is_signed_by(&log.key)
        };
        match checkpoint {
            Some(checkpoint) if is_sound(&checkpoint) => {
                if at >= self.from {
                    self.checkpoints.push(checkpoint);
                }
            }
            unsound => {
                let said = unsound.map(|it| it.merkle_root).unwrap_or_default();
                self.checkpoints_valid = false;
                self.name(at, root.unwrap_or_else(|| NOTHING.to_owned()), said);
            }
        }
    }

    /// Compares with where the chain says that it ends.
    fn end(&mut self, head: Option<&ChainHead>, log: &AuditLog) {
        let Some(head) = head else {
            return self.name(self.next.max(self.from), NOTHING.to_owned(), String::new());
        };
        while self.next <= self.last && self.anomalies.len() < MOST_ANOMALIES {
            self.lost(log);
        }
        let ends_here = self.next == head.sequence + 1 && self.next > self.first;
        let hash = head.hash.clone().unwrap_or_default();
        if let Some(before) = self.before.take().filter(|it| ends_here && *it != hash) {
            self.name(head.sequence, hash, before);
        }
        let is_there = self.checkpoints.iter().any(|it| it.at_sequence == head.checkpointed);
        let in_range = (self.from..=self.last).contains(&head.checkpointed);
        if in_range && !is_there && self.checkpoints_valid {
            self.checkpoints_valid = false;
            self.name(head.checkpointed, NOTHING.to_owned(), String::new());
        }
    }
}
