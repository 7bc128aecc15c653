//! What is remembered, in memory.

use std::collections::{BTreeMap, BTreeSet};

use callboard_protocol::{MemoryId, Remembered};

use crate::memory::{
    CONVERSATIONS, CrowdedMemory, MemoryQuery, MemoryRecord, MemoryRow, MemoryWrite, Seen,
    next_expiry,
};
use crate::store::{Scope, StoreError};

/// Every version of every entry, in the order of writing.
#[derive(Default)]
pub(super) struct Journal {
    rows: Vec<(Scope, MemoryRecord)>,
    /// Positions are never given twice, also when what stood there was forgotten.
    position: u64,
}

impl Journal {
    fn versions(&self, owner: &Scope, id: &MemoryId) -> impl Iterator<Item = &MemoryRecord> {
        let rows = self.rows.iter().filter(move |(scope, record)| {
            scope.tenant == owner.tenant && scope.mode == owner.mode && record.id == *id
        });
        rows.map(|(_, record)| record)
    }

    fn refuse_moved(&self, owner: &Scope, rows: &[&MemoryRow]) -> Result<(), StoreError> {
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

    /// Checks all writes of a batch before one of them is made.
    pub(super) fn check(&self, writes: &[MemoryWrite]) -> Result<(), StoreError> {
        let mut rows: BTreeMap<&Scope, Vec<&MemoryRow>> = BTreeMap::new();
        for write in writes {
            if let MemoryWrite::Entry { owner, row } = write {
                rows.entry(owner).or_default().push(row);
            }
        }
        rows.into_iter().try_for_each(|(owner, rows)| self.refuse_moved(owner, &rows))
    }

    pub(super) fn apply(&mut self, writes: Vec<MemoryWrite>) {
        for write in writes {
            match write {
                MemoryWrite::Entry { owner, row } => self.write(&owner, row),
                MemoryWrite::Forget { scope, id } => {
                    self.rows.retain(|(owner, record)| !scope.includes(owner) || record.id != id);
                }
            }
        }
    }

    fn write(&mut self, owner: &Scope, row: MemoryRow) {
        let before = self.versions(owner, &row.id).last().cloned();
        self.position += 1;
        let record = MemoryRecord {
            id: row.id,
            owner: owner.clone(),
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
        self.rows.push((owner.clone(), record));
    }

    pub(super) fn recall(&self, scope: &Scope, query: &MemoryQuery) -> Vec<MemoryRecord> {
        let shown = |record: &MemoryRecord| query.seen.as_ref().is_none_or(|it| it.shows(record));
        let visible =
            || self.rows.iter().filter(|(owner, record)| scope.includes(owner) && shown(record));
        let positions: BTreeSet<u64> = visible().map(|(_, record)| record.position).collect();
        let mut newest: BTreeMap<&MemoryId, &MemoryRecord> = BTreeMap::new();
        for (_, record) in visible() {
            newest.insert(&record.id, record);
        }
        // A reader that sees what replaced an entry does not see the entry.
        newest.retain(|_, record| record.superseded_by.is_none_or(|by| !positions.contains(&by)));
        let answers = |record: &&MemoryRecord| record.answers(query);
        let mut found: Vec<MemoryRecord> = newest.into_values().filter(answers).cloned().collect();
        found.sort_by_key(|record| std::cmp::Reverse(query.place_of(record)));
        found.truncate(query.limit);
        found
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn history(&self, scope: &Scope, id: &MemoryId) -> Vec<MemoryRecord> {
        let rows = self.rows.iter().rev();
        let visible = rows.filter(|(owner, record)| scope.includes(owner) && record.id == *id);
        visible.map(|(_, record)| record.clone()).collect()
    }

    pub(super) fn crowded(&self, most: u64) -> Vec<CrowdedMemory> {
        let mut places: BTreeMap<(&Scope, &str, &str), (u64, u64)> = BTreeMap::new();
        for (owner, record) in &self.rows {
            let is_anyones = !record.memory_ref.starts_with(CONVERSATIONS);
            if record.superseded_by.is_none() && record.expires_at.is_none() && is_anyones {
                let place = (owner, record.scope_id.as_str(), record.memory_ref.as_str());
                let (count, newest) = places.entry(place).or_default();
                (*count, *newest) = (*count + 1, record.position);
            }
        }
        let crowded = places.into_iter().filter(|(_, (count, _))| *count > most);
        let crowd = |((owner, scope_id, memory_ref), (_, newest)): ((&Scope, &str, &str), _)| {
            CrowdedMemory {
                owner: owner.clone(),
                scope_id: scope_id.to_owned(),
                memory_ref: memory_ref.to_owned(),
                newest,
            }
        };
        crowded.map(crowd).collect()
    }
}

impl Seen {
    fn shows(&self, record: &MemoryRecord) -> bool {
        let named = Remembered { id: record.id.clone(), version: record.version };
        let is_relative = self.family.is_some() && record.family == self.family;
        (record.position <= self.view.as_of && !is_relative) || self.view.also.contains(&named)
    }
}
