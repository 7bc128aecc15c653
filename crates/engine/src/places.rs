//! How many runs this process drives at once, and how much they may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Runs that are read from the store at once: what each will weigh is known only afterwards.
const OPENING: usize = 8;

/// The places for runs that are being driven.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    opening: Arc<Semaphore>,
    held: Arc<Held>,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Held {
    bytes: AtomicUsize,
    /// Whether anybody waits for a place.
    is_wanted: AtomicBool,
    /// Says that one became free.
    freed: Notify,
}

/// One run's place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _free: Option<OwnedSemaphorePermit>,
    held: Arc<Held>,
    weighs: usize,
}

impl Places {
    pub(crate) fn new(most_runs: usize, most_bytes: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most_runs.min(Semaphore::MAX_PERMITS))),
            opening: Arc::new(Semaphore::new(OPENING)),
            held: Arc::default(),
            most_bytes,
        }
    }

    /// A place, if one is free and what is held leaves room.
    pub(crate) fn take(&self) -> Option<Place> {
        if self.held.bytes.load(Ordering::Relaxed) >= self.most_bytes {
            return None;
        }
        let free = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(self.place(Some(free)))
    }

    /// Up to so many places. Where there is none, whoever leaves one says so.
    pub(crate) fn take_some(&self, most: usize) -> Vec<Place> {
        let some = || -> Vec<Place> { std::iter::from_fn(|| self.take()).take(most).collect() };
        let taken = some();
        if !taken.is_empty() {
            return taken;
        }
        self.held.is_wanted.store(true, Ordering::SeqCst);
        // One may have become free before that was known.
        some()
    }

    /// A place for a run that another one waits for: were it to wait for a place, both would wait for ever.
    pub(crate) fn take_anyway(&self) -> Place {
        self.take().unwrap_or_else(|| self.place(None))
    }

    fn place(&self, free: Option<OwnedSemaphorePermit>) -> Place {
        Place { _free: free, held: Arc::clone(&self.held), weighs: 0 }
    }

    /// Returns when there is room to read one more run from the store. The guard is to be kept until it was weighed.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        let opening = Arc::clone(&self.opening).acquire_owned().await.ok();
        loop {
            let freed = self.held.freed.notified();
            tokio::pin!(freed);
            // Whatever becomes free from here on is not missed.
            freed.as_mut().enable();
            if self.held.bytes.load(Ordering::Relaxed) < self.most_bytes {
                return opening;
            }
            freed.await;
        }
    }

    /// Whether somebody wanted a place since this was asked last.
    pub(crate) fn was_wanted(&self) -> bool {
        self.held.is_wanted.swap(false, Ordering::SeqCst)
    }
}

impl Place {
    /// Says what the run weighs now.
    pub(crate) fn weigh(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.weighs, bytes);
        if before == bytes {
            return;
        }
        self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held.bytes.fetch_sub(before, Ordering::Relaxed);
        if bytes < before {
            self.held.freed.notify_waiters();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.weigh(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_while_there_are_any_and_while_there_is_room() {
        let places = Places::new(2, 100);
        let (mut one, two) = (places.take(), places.take());
        assert!(two.is_some() && places.take().is_none() && !places.was_wanted());
        assert!(places.take_some(9).is_empty() && places.was_wanted());
        drop(two);
        one.iter_mut().for_each(|one| one.weigh(100));
        assert!(places.take().is_none(), "what is held leaves no room");
        let child = places.take_anyway();
        one.iter_mut().for_each(|one| one.weigh(99));
        assert!(places.take().is_some());
        drop((one, child));
        assert_eq!(places.held.bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn whoever_waits_for_room_is_let_in_when_there_is_some() {
        let places = Places::new(9, 10);
        let mut full = places.take().unwrap();
        full.weigh(10);
        let room = places.room();
        tokio::pin!(room);
        assert!(futures_util::poll!(&mut room).is_pending());
        drop(full);
        assert!(futures_util::poll!(&mut room).is_ready());
    }
}
