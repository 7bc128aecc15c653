//! Rows that were read before. One process holds the folder, so they are true until it changes one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows that are kept. Most hosts have fewer; where there are more, they are read again now and then.
const MOST: usize = 256;

pub(super) struct Known<K, V>(Mutex<Held<K, V>>);

struct Held<K, V> {
    /// How often something was forgotten.
    changes: u64,
    rows: HashMap<K, V>,
}

/// What was known when a read began.
#[derive(Clone, Copy)]
pub(super) struct Moment(u64);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Held { changes: 0, rows: HashMap::new() }))
    }
}

impl<K: Eq + Hash, V: Clone> Known<K, V> {
    /// The row, or the moment since when it is being looked for.
    pub(super) fn find(&self, key: &K) -> Result<V, Moment> {
        let held = self.lock();
        held.rows.get(key).cloned().ok_or(Moment(held.changes))
    }

    /// Keeps what a read found, unless something has changed since it began: it may have seen what was before.
    pub(super) fn keep(&self, since: Moment, key: K, row: V) {
        let mut held = self.lock();
        if held.changes != since.0 {
            return;
        }
        if held.rows.len() >= MOST {
            held.rows.clear();
        }
        held.rows.insert(key, row);
    }

    /// To be called once a change is committed and before anyone is notified of it.
    pub(super) fn forget(&self, is_changed: impl Fn(&K) -> bool) {
        let mut held = self.lock();
        held.changes += 1;
        held.rows.retain(|key, _| !is_changed(key));
    }

    fn lock(&self) -> MutexGuard<'_, Held<K, V>> {
        // A panic elsewhere cannot leave this map half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(known: &Known<&'static str, u8>, key: &'static str) -> Option<u8> {
        known.find(&key).ok()
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let known = Known::default();
        let Err(since) = known.find(&"a") else { panic!("nothing is known yet") };
        known.keep(since, "b", 2);
        known.forget(|key| *key == "a");
        known.keep(since, "a", 1);
        assert_eq!((found(&known, "a"), found(&known, "b")), (None, Some(2)));
    }
}
