//! Reading memory, for every database: where to look, and what a run's own entries do to what was found.

use std::collections::{BTreeMap, BTreeSet};

use callboard_engine::{MemoryQuery, MemoryRecord, Place};
use callboard_protocol::MemoryId;

/// Where one statement looks.
pub(crate) enum Where<'a> {
    Anywhere,
    Scope(&'a str),
    Ref(&'a str),
    Both(&'a str, &'a str),
}

impl<'a> Where<'a> {
    /// A name may be that of a scope or of a reference. Asked for one by one, both have an index.
    pub(crate) fn all(place: &'a Place) -> Vec<Self> {
        match place {
            Place::Named(name) => vec![Self::Scope(name), Self::Ref(name)],
            Place::Exactly { scope_id, memory_ref } => vec![Self::Both(scope_id, memory_ref)],
            Place::Anywhere => vec![Self::Anywhere],
        }
    }

    /// The columns that are compared, with their values.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let (scope_id, memory_ref) = match *self {
            Self::Anywhere => (None, None),
            Self::Scope(name) => (Some(name), None),
            Self::Ref(name) => (None, Some(name)),
            Self::Both(scope_id, memory_ref) => (Some(scope_id), Some(memory_ref)),
        };
        let columns = [("scope_id", scope_id), ("memory_ref", memory_ref)];
        columns.into_iter().filter_map(|(column, name)| Some((column, name?)))
    }
}

/// What a run has written itself, and the query that is asked of everybody else's.
pub(crate) struct Recall {
    own: Vec<MemoryRecord>,
    hidden: usize,
    pub(crate) query: MemoryQuery,
}

impl Recall {
    pub(crate) fn new(query: &MemoryQuery, own: Vec<MemoryRecord>) -> Self {
        // What the run has put together hides what it was made from, which must not use up the limit.
        let hidden: usize = own.iter().map(|record| record.sources.len()).sum();
        let limit = query.limit.saturating_add(hidden);
        Self { own, hidden, query: MemoryQuery { limit, ..query.clone() } }
    }

    /// The answer, with what was found.
    pub(crate) fn answer(self, found: Vec<MemoryRecord>) -> Vec<MemoryRecord> {
        let Self { own, hidden, query } = self;
        let seen: BTreeSet<u64> = own.iter().map(|record| record.position).collect();
        let mut newest: BTreeMap<MemoryId, MemoryRecord> = BTreeMap::new();
        for record in found.into_iter().chain(own) {
            let known = newest.get(&record.id).map_or(0, |known| known.version);
            if record.version > known {
                newest.insert(record.id.clone(), record);
            }
        }
        newest.retain(|_, record| record.superseded_by.is_none_or(|by| !seen.contains(&by)));
        let mut found: Vec<MemoryRecord> =
            newest.into_values().filter(|record| record.answers(&query)).collect();
        found.sort_by_key(|record| std::cmp::Reverse(query.place_of(record)));
        found.truncate(query.limit - hidden);
        found
    }
}
