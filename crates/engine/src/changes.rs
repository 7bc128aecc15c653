//! Wakes those who wait for a run's log to grow. Only a hint: every waiter reads the log itself.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use callboard_protocol::RunId;

/// Enough that writers of different runs seldom meet, few enough to cost nothing when idle.
const SHARDS: usize = 16;

/// Versions remembered per shard. Readers mostly wait for a run while it moves; for the others
/// the store is asked.
const RECENT: usize = 512;

#[derive(Debug, Default)]
struct Shard {
    waiters: HashMap<RunId, watch::Sender<u64>>,
    /// The last announced versions of runs that moved lately.
    recent: HashMap<RunId, u64>,
}

/// Waiters by run. A run that nobody waits for and that does not move takes no memory here.
#[derive(Debug)]
pub struct Changes {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

impl Default for Changes {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }
}

impl Changes {
    /// Notifies the readers of a run that its log now holds `version` events.
    pub fn announce(&self, run: &RunId, version: u64) {
        let mut shard = self.shard(run);
        if let Some(sender) = shard.waiters.get(run) {
            sender.send_replace(version);
        }
        if shard.recent.len() >= RECENT {
            shard.recent.clear();
        }
        shard.recent.insert(run.clone(), version);
    }

    /// Starts listening. What is announced from here on is not missed, so: listen, read the log, then wait.
    pub fn listen(&self, run: &RunId) -> Listener<'_> {
        let mut shard = self.shard(run);
        let known = shard.recent.get(run).copied();
        let sender = shard.waiters.entry(run.clone()).or_insert_with(|| watch::channel(0).0);
        Listener { changes: self, run: run.clone(), receiver: Some(sender.subscribe()), known }
    }

    /// The runs that somebody waits for.
    pub fn watched(&self) -> Vec<RunId> {
        let shards = self.shards.iter();
        let shards = shards.map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|shard| shard.waiters.keys().cloned().collect::<Vec<_>>()).collect()
    }

    fn shard(&self, run: &RunId) -> MutexGuard<'_, Shard> {
        let hash = usize::try_from(self.hasher.hash_one(run) % SHARDS as u64).unwrap_or(0);
        // A panic while the lock was held cannot leave these maps half-changed.
        self.shards[hash].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader that waits for one run.
#[derive(Debug)]
pub struct Listener<'a> {
    changes: &'a Changes,
    run: RunId,
    receiver: Option<watch::Receiver<u64>>,
    known: Option<u64>,
}

impl Listener<'_> {
    /// The version that was announced last before the listening began, if it is remembered.
    pub fn known(&self) -> Option<u64> {
        self.known
    }

    /// Returns once a version beyond `seen` has been announced.
    pub async fn beyond(&mut self, seen: u64) {
        if let Some(receiver) = &mut self.receiver {
            // The sender lives as long as there is a listener, so an error cannot happen here.
            let _version = receiver.wait_for(|version| *version > seen).await;
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut shard = self.changes.shard(&self.run);
        self.receiver = None;
        if shard.waiters.get(&self.run).is_some_and(|sender| sender.receiver_count() == 0) {
            shard.waiters.remove(&self.run);
        }
    }
}
