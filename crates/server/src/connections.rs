//! The connections that are open: how many there may be, and which of them gives way to a new one.
//!
//! A connection that a key holder's request is using never gives way. Of the others, those that never showed a key go
//! first, and among equals the one that has waited longest. So thousands of connections that say nothing, or something
//! very slowly, keep out nobody who has a key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::metrics::Gauge;
use tokio_util::sync::CancellationToken;

use crate::metrics;

#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    gauge: Gauge,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    count: usize,
    turn: u64,
    /// Those that may be closed, the first of them first.
    idle: BTreeMap<Turn, CancellationToken>,
}

/// When a connection's turn to give way comes.
type Turn = (Standing, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Stranger,
    Known,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), gauge: metrics::connections(), open: Mutex::default() })
    }

    /// Takes one more in; one too many closes the one whose turn it is. None: all of them work for key holders.
    pub(crate) fn admit(self: &Arc<Self>, cut: CancellationToken) -> Option<Connection> {
        let mut open = self.open();
        if open.count >= self.most {
            // It is counted until it has ended, which it does as soon as it runs.
            open.idle.pop_first()?.1.cancel();
        }
        open.count += 1;
        self.gauge.increment(1.0);
        let place = Arc::new(Place { all: Arc::clone(self), cut, turn: Mutex::new(None) });
        place.wait(&mut open, Standing::Stranger);
        drop(open);
        Some(Connection(place))
    }

    /// Closes the connection whose turn it is, where the machine has no more of what connections need.
    pub(crate) fn make_room(&self) {
        if let Some((_, cut)) = self.open().idle.pop_first() {
            cut.cancel();
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // A panic elsewhere cannot leave the list half-changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, as its requests see it.
#[derive(Debug, Clone)]
pub(crate) struct Connection(Arc<Place>);

#[derive(Debug)]
struct Place {
    all: Arc<Connections>,
    cut: CancellationToken,
    /// None while it works for a key holder.
    turn: Mutex<Option<Turn>>,
}

impl Connection {
    /// Marks it as used by a key holder until the value is dropped.
    pub(crate) fn work(&self) -> Busy {
        let mut open = self.0.all.open();
        if let Some(turn) = self.0.turn().take() {
            open.idle.remove(&turn);
        }
        drop(open);
        Busy(self.clone())
    }
}

/// A key holder's request on a connection.
#[derive(Debug)]
pub(crate) struct Busy(Connection);

impl Drop for Busy {
    fn drop(&mut self) {
        let place = &self.0.0;
        place.wait(&mut place.all.open(), Standing::Known);
    }
}

impl Place {
    fn wait(&self, open: &mut Open, standing: Standing) {
        open.turn += 1;
        let turn = (standing, open.turn);
        open.idle.insert(turn, self.cut.clone());
        if let Some(before) = self.turn().replace(turn) {
            open.idle.remove(&before);
        }
    }

    fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.open();
        open.count -= 1;
        if let Some(turn) = self.turn().take() {
            open.idle.remove(&turn);
        }
        self.all.gauge.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(connections: &Arc<Connections>) -> (Option<Connection>, CancellationToken) {
        let cut = CancellationToken::new();
        (connections.admit(cut.clone()), cut)
    }

    #[test]
    fn strangers_give_way_first_then_who_has_waited_longest_and_never_who_works() {
        let connections = Connections::new(3);
        let (known, known_cut) = admit(&connections);
        let (old, old_cut) = admit(&connections);
        let (young, young_cut) = admit(&connections);
        drop(known.as_ref().map(Connection::work));
        let (working, working_cut) = admit(&connections);
        assert!(old_cut.is_cancelled() && !young_cut.is_cancelled());
        drop(old);
        let busy = working.as_ref().map(Connection::work);
        let (fifth, fifth_cut) = admit(&connections);
        assert!(young_cut.is_cancelled() && !known_cut.is_cancelled());
        drop(young);
        let also_busy = fifth.as_ref().map(Connection::work);
        let (sixth, _) = admit(&connections);
        assert!(known_cut.is_cancelled() && sixth.is_some());
        assert!(!working_cut.is_cancelled() && !fifth_cut.is_cancelled());
        drop(also_busy);
        drop(busy);
    }

    #[test]
    fn where_all_work_for_key_holders_nobody_is_let_in() {
        let connections = Connections::new(1);
        let (only, cut) = admit(&connections);
        let _busy = only.as_ref().map(Connection::work);
        assert!(admit(&connections).0.is_none() && !cut.is_cancelled());
        drop((_busy, only));
        assert!(admit(&connections).0.is_some());
        assert_eq!(connections.open().count, 0);
    }
}
