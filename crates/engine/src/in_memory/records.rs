//! Records, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_protocol::{RunId, Timestamp};

use crate::records::{
    DueRecords, IndexEntry, Key, KeyOrder, Kind, Record, RecordChange, RecordQuery, RecordWrite,
    RunLink,
};
use crate::store::StoreError;

#[derive(Default)]
pub(super) struct Records {
    stored: BTreeMap<(Kind, Key), Stored>,
    /// The position of the record that was written last.
    last: u64,
}

struct Stored {
    record: Record,
    indexed: Vec<IndexEntry>,
    run: Option<RunLink>,
    blob: Option<Arc<[u8]>>,
}

impl Records {
    pub(super) fn check(&self, changes: &[RecordChange]) -> Result<(), StoreError> {
        let moved = changes.iter().find(|change| {
            !change.expected.holds(self.get(change.kind, &change.key).map(|record| record.version))
        });
        moved.map_or(Ok(()), |change| Err(change.moved()))
    }

    pub(super) fn apply(&mut self, changes: Vec<RecordChange>) {
        for RecordChange { kind, key, write, .. } in changes {
            match write {
                RecordWrite::Nothing => {}
                RecordWrite::Delete => {
                    self.stored.remove(&(kind, key));
                }
                RecordWrite::Put { place, body, due_at, indexed, run, blob } => {
                    let blob = blob.or_else(|| self.blob(kind, &key));
                    let before = self.get(kind, &key);
                    let version = before.map_or(1, |record| record.version + 1);
                    let position = before.map(|record| record.position).unwrap_or_else(|| {
                        self.last += 1;
                        self.last
                    });
                    let body = Arc::from(body);
                    let record =
                        Record { kind, key: key.clone(), place, version, position, due_at, body };
                    self.stored.insert((kind, key), Stored { record, indexed, run, blob });
                }
            }
        }
    }

    pub(super) fn get(&self, kind: Kind, key: &Key) -> Option<&Record> {
        self.stored.get(&(kind, key.clone())).map(|stored| &stored.record)
    }

    pub(super) fn blob(&self, kind: Kind, key: &Key) -> Option<Arc<[u8]>> {
        self.stored.get(&(kind, key.clone()))?.blob.clone()
    }

    pub(super) fn scan(&self, query: &RecordQuery) -> Vec<Record> {
        let mut found: Vec<&Record> = self
            .of_kind(query.kind)
            .filter(|stored| query.within.includes(&stored.record.place))
            .filter(|stored| is_below(query.below.as_ref(), &stored.record.key))
            .filter(|stored| {
                query.index.as_ref().is_none_or(|index| stored.indexed.contains(index))
            })
            .map(|stored| &stored.record)
            .collect();
        if query.order == KeyOrder::Descending {
            found.reverse();
        }
        let is_after = |record: &&&Record| match (&query.after, query.order) {
            (None, _) => true,
            (Some(after), KeyOrder::Ascending) => record.key > *after,
            (Some(after), KeyOrder::Descending) => record.key < *after,
        };
        found.iter().filter(is_after).take(query.limit).map(|record| (*record).clone()).collect()
    }

    pub(super) fn due(&self, kind: Kind, at: Timestamp, most: usize) -> DueRecords {
        let times = self.of_kind(kind).filter_map(|stored| stored.record.due_at);
        let next = times.filter(|due_at| *due_at > at).min();
        let records = self.of_kind(kind).map(|stored| &stored.record);
        let mut due: Vec<&Record> =
            records.filter(|record| record.due_at.is_some_and(|due_at| due_at <= at)).collect();
        due.sort_by_key(|record| (record.due_at, record.position));
        DueRecords { records: due.into_iter().take(most).cloned().collect(), next }
    }

    /// Whether a record keeps this run from being removed.
    pub(super) fn retain(&self, run: &RunId) -> bool {
        let mut links = self.stored.values().filter_map(|stored| stored.run.as_ref());
        links.any(|link| link.retains && link.run == *run)
    }

    pub(super) fn remove_of(&mut self, run: &RunId) {
        self.stored.retain(|_, stored| stored.run.as_ref().is_none_or(|link| link.run != *run));
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Stored> {
        self.stored.iter().filter(move |((of, _), _)| *of == kind).map(|(_, stored)| stored)
    }
}

fn is_below(parts: Option<&Key>, key: &Key) -> bool {
    parts.is_none_or(|parts| {
        let (first, last) = parts.bounds_below();
        key.as_str() > first.as_str() && key.as_str() < last.as_str()
    })
}
