//! What is remembered, in memory.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use callboard_protocol::{HeartbeatId, MemoryId, Remembered, RunId, Timestamp};

use super::InMemoryStore;
use crate::memory::{
    CONVERSATIONS, Commitment, Crowd, Due, Memory, MemoryQuery, MemoryRecord, MemoryRow, Seen,
    next_expiry,
};
use crate::store::{Scope, StoreError};

/// Every version of every entry, in the order of writing.
#[derive(Default)]
pub(super) struct Journal {
    rows: Vec<(Scope, MemoryRecord)>,
    /// Positions are never given twice, also when what stood there was forgotten.
    position: u64,
    /// Positions of commitments that nobody has settled, with when they are due.
    due: BTreeMap<u64, Timestamp>,
    /// Of those that wait for a heartbeat, which.
    waiting: BTreeMap<u64, HeartbeatId>,
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
            let moved = |id: &MemoryId| StoreError::Moved { what: format!("entry {id}") };
            if version != row.expected {
                return Err(moved(&row.id));
            }
            written.insert(&row.id, version + 1);
            for absorbed in &row.absorbs {
                let newest = self.versions(owner, &absorbed.id).last();
                let stands = newest.is_some_and(|newest| {
                    newest.version == absorbed.version && newest.superseded_by.is_none()
                });
                if !stands {
                    return Err(moved(&absorbed.id));
                }
            }
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
            superseded_by: None,
            first: before.as_ref().map_or(self.position, |before| before.first),
        };
        if let Some(before) = &before {
            self.due.remove(&before.position);
            self.waiting.remove(&before.position);
        }
        match row.due {
            Some(Due::At(due_at)) => drop(self.due.insert(self.position, due_at)),
            Some(Due::On(heartbeat)) => drop(self.waiting.insert(self.position, heartbeat)),
            None => {}
        }
        let replaced = before
            .iter()
            .map(|before| Remembered { id: before.id.clone(), version: before.version });
        let gone: Vec<Remembered> = replaced.chain(row.absorbs).collect();
        for (scope, row) in &mut self.rows {
            let is_gone = gone.iter().any(|gone| row.id == gone.id && row.version == gone.version);
            let is_owners = scope.tenant == owner.tenant && scope.mode == owner.mode;
            if is_owners && is_gone && row.superseded_by.is_none() {
                row.superseded_by = Some(self.position);
            }
        }
        self.rows.push((owner.clone(), record.clone()));
        record
    }

    fn recall(&self, scope: &Scope, query: &MemoryQuery) -> Vec<MemoryRecord> {
        let shown = |record: &MemoryRecord| query.seen.as_ref().is_none_or(|it| it.shows(record));
        let visible =
            || self.rows.iter().filter(|(owner, record)| scope.includes(owner) && shown(record));
        let positions: BTreeSet<u64> = visible().map(|(_, record)| record.position).collect();
        let mut newest: BTreeMap<&MemoryId, &MemoryRecord> = BTreeMap::new();
        for (_, record) in visible() {
            newest.insert(&record.id, record);
        }
        // Whoever sees what took the place of an entry does not see the entry.
        newest.retain(|_, record| record.superseded_by.is_none_or(|by| !positions.contains(&by)));
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
        let journal = &mut self.tables().journal;
        let before = journal.rows.len();
        journal.rows.retain(|(owner, record)| !scope.includes(owner) || record.id != *id);
        Ok(journal.rows.len() < before)
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

    async fn crowded(&self, most: u64) -> Result<Vec<Crowd>, StoreError> {
        let tables = self.tables();
        let mut crowds: Vec<(Crowd, u64)> = Vec::new();
        for (owner, record) in &tables.journal.rows {
            let is_anyones = !record.memory_ref.starts_with(CONVERSATIONS);
            if record.superseded_by.is_some() || record.expires_at.is_some() || !is_anyones {
                continue;
            }
            let is_place = |(crowd, _): &&mut (Crowd, u64)| {
                crowd.owner == *owner
                    && crowd.scope_id == record.scope_id
                    && crowd.memory_ref == record.memory_ref
            };
            match crowds.iter_mut().find(is_place) {
                Some((crowd, count)) => {
                    (crowd.newest, *count) = (record.position, *count + 1);
                }
                None => crowds.push((
                    Crowd {
                        owner: owner.clone(),
                        scope_id: record.scope_id.clone(),
                        memory_ref: record.memory_ref.clone(),
                        newest: record.position,
                    },
                    1,
                )),
            }
        }
        let crowded = crowds.into_iter().filter(|(_, count)| *count > most);
        Ok(crowded.map(|(crowd, _)| crowd).collect())
    }

    async fn due_commitments(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<Commitment>, StoreError> {
        let tables = self.tables();
        let journal = &tables.journal;
        let mut due: Vec<Commitment> = journal
            .rows
            .iter()
            .filter_map(|(owner, record)| {
                let due_at = *journal.due.get(&record.position).filter(|due_at| **due_at <= at)?;
                Some(Commitment {
                    owner: owner.clone(),
                    id: record.id.clone(),
                    version: record.version,
                    memory_ref: record.memory_ref.clone(),
                    due_at,
                    due_on: journal.waiting.get(&record.position).cloned(),
                    expires_at: record.expires_at,
                    position: record.position,
                })
            })
            .collect();
        due.sort_by_key(|commitment| (commitment.due_at, commitment.position));
        due.truncate(limit);
        Ok(due)
    }

    async fn commitments_come_due(
        &self,
        owner: &Scope,
        heartbeat: &HeartbeatId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let Journal { rows, due, waiting, .. } = &mut tables.journal;
        for (whose, record) in rows.iter() {
            if whose == owner && waiting.get(&record.position) == Some(heartbeat) {
                due.entry(record.position).or_insert(at);
            }
        }
        Ok(())
    }

    async fn settle_commitment(&self, commitment: &Commitment) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.journal.due.remove(&commitment.position);
        tables.journal.waiting.remove(&commitment.position);
        Ok(())
    }
}
