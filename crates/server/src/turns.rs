//! Requests that carry the same idempotency key take turns, so that the second finds what the first came to.
//!
//! Holds within one process. Between processes the store decides, where an outcome is committed with its effect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_engine::Digest;
use tokio::sync::OwnedMutexGuard;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// Who is at work on which key. A key that nobody uses takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<Digest, Lock>>);

impl Turns {
    /// Waits until nobody else works on the key.
    pub(crate) async fn take(&self, key: Digest) -> Turn<'_> {
        let lock = self.locks().entry(key).or_default().clone();
        // Made before the wait: a caller that gives up while waiting cleans up as well.
        let mut turn = Turn { turns: self, key, held: None };
        turn.held = Some(lock.lock_owned().await);
        turn
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<Digest, Lock>> {
        // A panic while the lock was held cannot leave the map half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request's turn; the next begins when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: Digest,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut locks = self.turns.locks();
        self.held = None;
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_request_waits_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let first = turns.take([1; 32]).await;
        let second = turns.take([1; 32]);
        tokio::pin!(second);
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        let other = turns.take([2; 32]).await;
        drop(first);
        drop(second.await);
        drop(other);
        assert!(turns.locks().is_empty());
    }

    #[tokio::test]
    async fn giving_up_while_waiting_leaves_nothing_behind() {
        let turns = Turns::default();
        let first = turns.take([1; 32]).await;
        {
            let second = turns.take([1; 32]);
            tokio::pin!(second);
            assert!(futures_util::poll!(second.as_mut()).is_pending());
        }
        drop(first);
        assert!(turns.locks().is_empty());
    }
}
