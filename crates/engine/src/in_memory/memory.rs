//! What is remembered, in memory.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use callboard_protocol::{MemoryId, Remembered, RunId};

use super::InMemoryStore;
use crate::memory::{Memory, MemoryQuery, MemoryRecord, MemoryRow, Seen, next_expiry};
use crate::store::{Scope, StoreError};

/// Every version of every entry, in the order of writing.
#[derive(Default)]
pub(super) struct Journal {
    rows: Vec<(Scope, MemoryRecord)>,
    /// Positions are never given twice, also when what stood there was forgotten.
    position: u64,
    /// Runs whose view of memory was let go of.
    expired: BTreeSet<RunId>,
}

impl Journal {
    fn versions(&self, owner: &Scope, id: &MemoryId) -> impl Iterator<Item = &MemoryRecord> {
        let rows = self.rows.iter().filter(move |(scope, record)| {
            scope.tenant == owner.tenant && scope.mode == owner.mode && record.id == *id
        });
        rows.map(|(_, record)| record)
    }

    pub(super) fn refuse_moved(&self, owner: &Scope, rows: &[MemoryRow]) -> Result<(), StoreError> {
        let mut written: BTreeMap<&MemoryId, u64> = BTreeMap::new();
        for row in rows {
            let stored = || self.versions(owner, &row.id).last().map_or(0, |last| last.version);
            let version = written.get(&row.id).copied().unwrap_or_else(stored);
            if version != row.expected {
                return Err(StoreError::Moved { what: format!("entry {}", row.id) });
            }
            written.insert(&row.id, version + 1);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, owner: &Scope, row: MemoryRow) -> MemoryRecord {
        let before = self.versions(owner, &row.id).last().cloned();
        self.position += 1;
        let record = MemoryRecord {
            id: row.id,
            scope_id: row.scope_id,
            memory_ref: row.memory_ref,
            content: row.content,
            tags: row.tags,
            created_at: before.as_ref().map_or(row.at, |before| before.created_at),
            expires_at: next_expiry(before.as_ref().and_then(|it| it.expires_at), row.expires_at),
            version: row.expected + 1,
            previous_version: before.as_ref().map(|before| before.version),
            written_at: row.at,
            author: row.author,
            sources: row.sources,
            family: row.family,
            position: self.position,
            first: before.as_ref().map_or(self.position, |before| before.first),
        };
        self.rows.push((owner.clone(), record.clone()));
        record
    }

    fn recall(&self, scope: &Scope, query: &MemoryQuery) -> Vec<MemoryRecord> {
        let mut newest: BTreeMap<&MemoryId, &MemoryRecord> = BTreeMap::new();
        for (owner, record) in &self.rows {
            if scope.includes(owner) && query.seen.as_ref().is_none_or(|seen| seen.shows(record)) {
                newest.insert(&record.id, record);
            }
        }
        let answers = |record: &&MemoryRecord| record.answers(query);
        let mut found: Vec<MemoryRecord> = newest.into_values().filter(answers).cloned().collect();
        found.sort_by_key(|record| std::cmp::Reverse(query.place_of(record)));
        found.truncate(query.limit);
        found
    }
}

impl Seen {
    fn shows(&self, record: &MemoryRecord) -> bool {
        let named = Remembered { id: record.id.clone(), version: record.version };
        let is_relative = self.family.is_some() && record.family == self.family;
        (record.position <= self.view.as_of && !is_relative) || self.view.also.contains(&named)
    }
}

#[async_trait]
impl Memory for InMemoryStore {
    async fn memory_position(&self) -> Result<u64, StoreError> {
        Ok(self.tables().journal.position)
    }

    async fn recall(
        &self,
        scope: &Scope,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        Ok(self.tables().journal.recall(scope, query))
    }

    async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Vec<MemoryRecord>, StoreError> {
        let tables = self.tables();
        let rows = tables.journal.rows.iter().rev();
        let visible = rows.filter(|(owner, record)| scope.includes(owner) && record.id == *id);
        Ok(visible.map(|(_, record)| record.clone()).collect())
    }

    async fn amend(&self, scope: &Scope, row: MemoryRow) -> Result<MemoryRecord, StoreError> {
        let mut tables = self.tables();
        let journal = &mut tables.journal;
        let mut rows = journal.rows.iter().rev();
        let owner = rows.find(|(owner, record)| scope.includes(owner) && record.id == row.id);
        let Some(owner) = owner.map(|(owner, _)| owner.clone()) else {
            return Err(StoreError::Moved { what: format!("entry {}", row.id) });
        };
        journal.refuse_moved(&owner, std::slice::from_ref(&row))?;
        Ok(journal.write(&owner, row))
    }

    async fn forget(&self, scope: &Scope, id: &MemoryId) -> Result<bool, StoreError> {
        let rows = &mut self.tables().journal.rows;
        let before = rows.len();
        rows.retain(|(owner, record)| !scope.includes(owner) || record.id != *id);
        Ok(rows.len() < before)
    }

    async fn expire_snapshot(&self, scope: &Scope, run: &RunId) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_known = tables.visible(scope, run).is_some();
        if is_known {
            tables.journal.expired.insert(run.clone());
        }
        Ok(is_known)
    }

    async fn has_snapshot(&self, run: &RunId) -> Result<bool, StoreError> {
        Ok(!self.tables().journal.expired.contains(run))
    }
}
