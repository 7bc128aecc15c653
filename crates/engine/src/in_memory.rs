//! A store that forgets when it is dropped: for tests, for simulations and as the plainest statement of the port.
//!
//! One lock around plain maps, so every call is atomic and two runs of one test see the same order.
//! Nothing is sealed here, because nothing rests.

mod effects;
mod inbox;
mod logs;
mod memory;
mod records;
mod retention;
mod runs;
mod stored_run;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_protocol::{RunId, Timestamp};

use crate::changes::Changes;
use crate::effects::EffectKey;
use crate::records::Key;
use crate::store::{Digest, Outcome, StoreError, Tenure};
use effects::StoredEffect;
use memory::Journal;
use stored_run::StoredRun;

/// The port to the database, in memory.
#[derive(Default)]
pub struct InMemoryStore {
    tables: Mutex<Tables>,
    changes: Changes,
}

impl fmt::Debug for InMemoryStore {
    /// Leaves the contents out: they hold what a database would seal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryStore").finish_non_exhaustive()
    }
}

impl InMemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Does what opening a database does that only one process can hold: nobody from before holds a run any more.
    pub fn void_leases(&self) {
        for run in self.tables().runs.values_mut() {
            if run.tenure.lease_until.is_some() {
                let wake_at = Some(Timestamp::default());
                run.set(Tenure { lease_until: None, wake_at, ..run.tenure.clone() });
            }
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every method checks before it changes, so a panic under the lock leaves no half-written tables.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Tables {
    records: records::Records,
    counters: BTreeMap<Key, BTreeMap<&'static str, f64>>,
    runs: BTreeMap<RunId, StoredRun>,
    definitions: BTreeMap<String, Arc<str>>,
    outcomes: BTreeMap<Digest, Outcome>,
    effects: BTreeMap<EffectKey, StoredEffect>,
    /// Every event of every run, in the order of appends.
    log: Vec<(RunId, u64)>,
    journal: Journal,
}

fn unknown(run: &RunId) -> StoreError {
    StoreError::Unreadable { what: run.to_string(), why: "there is no such run".to_owned() }
}

/// A position in the log as an index; one beyond what memory can hold is beyond the end as well.
fn index(sequence: u64) -> usize {
    usize::try_from(sequence).unwrap_or(usize::MAX)
}
