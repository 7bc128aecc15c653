//! Looks for due records that found none. They hold for a moment, unless this host writes such a record meanwhile: an
//! idle host would ask for every kind each second. What another host writes is its own to look at; this one follows.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_engine::{Clock as _, DueRecords, Kind, SystemClock};
use callboard_protocol::Timestamp;

/// How long another host's record may stay unseen here while its writer does not look at it.
const HOLDS: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
pub(super) struct Quiet(Mutex<BTreeMap<Kind, Seen>>);

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    /// How often this host has written such records.
    writes: u64,
    found_none: Option<FoundNone>,
}

#[derive(Debug, Clone, Copy)]
struct FoundNone {
    /// By the clock that only counts.
    at: Timestamp,
    next: Option<Timestamp>,
}

impl Quiet {
    /// What is known without asking; otherwise what to say together with the answer.
    pub(super) fn known(&self, kind: Kind, at: Timestamp) -> Result<DueRecords, u64> {
        self.known_at(kind, at, SystemClock.counted())
    }

    fn known_at(&self, kind: Kind, at: Timestamp, counted: Timestamp) -> Result<DueRecords, u64> {
        let seen = self.lock().get(&kind).copied().unwrap_or_default();
        match seen.found_none {
            Some(none)
                if counted.since(none.at) < HOLDS && none.next.is_none_or(|next| at < next) =>
            {
                Ok(DueRecords { records: Vec::new(), next: none.next })
            }
            _ => Err(seen.writes),
        }
    }

    /// An answer that was asked for when `writes` were known.
    pub(super) fn found(&self, kind: Kind, writes: u64, found: &DueRecords) {
        self.found_at(kind, writes, found, SystemClock.counted());
    }

    fn found_at(&self, kind: Kind, writes: u64, found: &DueRecords, counted: Timestamp) {
        let mut kinds = self.lock();
        let seen = kinds.entry(kind).or_default();
        if seen.writes == writes {
            let none = FoundNone { at: counted, next: found.next };
            seen.found_none = found.records.is_empty().then_some(none);
        }
    }

    /// This host has written records of a kind, or may have.
    pub(super) fn written(&self, kind: Kind) {
        let mut kinds = self.lock();
        let seen = kinds.entry(kind).or_default();
        *seen = Seen { writes: seen.writes + 1, found_none: None };
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Kind, Seen>> {
        // An entry is put in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_none_holds_for_a_moment_until_something_is_written_or_due() {
        let at = |millis| Timestamp::from_millis(millis);
        let (quiet, kind) = (Quiet::default(), Kind::Schedule);
        let none = DueRecords { records: Vec::new(), next: Some(at(2_000)) };
        let Err(writes) = quiet.known_at(kind, at(1_000), at(0)) else { panic!("known at once") };
        quiet.found_at(kind, writes, &none, at(0));
        assert_eq!(quiet.known_at(kind, at(1_999), at(900)).unwrap().next, Some(at(2_000)));
        assert!(quiet.known_at(Kind::Heartbeat, at(1_999), at(900)).is_err(), "another kind");
        assert!(quiet.known_at(kind, at(2_000), at(900)).is_err(), "it is due");
        assert!(quiet.known_at(kind, at(1_000), at(4_000)).is_err(), "too long ago");
        // What was written while the question was under way may not be in the answer.
        quiet.written(kind);
        quiet.found_at(kind, writes, &none, at(0));
        assert!(quiet.known_at(kind, at(1_000), at(1)).is_err());
    }
}
