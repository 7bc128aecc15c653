//! How many runs this process drives at once, how much they may hold together, and how much of it one tenant may have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use callboard_protocol::Tenant;

/// Runs that are read from the store at once: what each will weigh is known only afterwards.
const OPENING: usize = 8;
/// A tenant may have so many times what is left free for others. One tenant alone gets three of four places, two of
/// them three of four of what is left then, and there is always one for the next that comes.
const TIMES_WHAT_IS_FREE: usize = 3;

/// The places for runs that are being driven.
#[derive(Debug)]
pub(crate) struct Places {
    opening: Arc<Semaphore>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most_runs: usize,
    most_bytes: usize,
    state: Mutex<State>,
    /// Whether a run waits for a place.
    is_wanted: AtomicBool,
    /// Says that something became free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    all: Holding,
    tenants: BTreeMap<Tenant, Holding>,
    /// How often a place or room became free.
    freed: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Holding {
    runs: usize,
    bytes: usize,
    /// Runs that took no place of their own and weigh all the same.
    guests: usize,
}

/// One run's place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    tenant: Tenant,
    is_guest: bool,
    weighs: usize,
}

/// Places for runs that are about to be claimed.
#[derive(Debug)]
pub(crate) struct Reserved {
    shared: Arc<Shared>,
    pub(crate) places: usize,
    /// The most that one tenant may hold with what is claimed.
    pub(crate) share: usize,
    /// What tenants hold already.
    pub(crate) held: BTreeMap<Tenant, usize>,
    freed: u64,
}

impl Places {
    pub(crate) fn new(most_runs: usize, most_bytes: usize) -> Self {
        let shared = Shared {
            most_runs,
            most_bytes,
            state: Mutex::default(),
            is_wanted: AtomicBool::new(false),
            freed: Notify::new(),
        };
        Self { opening: Arc::new(Semaphore::new(OPENING)), shared: Arc::new(shared) }
    }

    /// How many places are taken, and how many bytes their runs hold.
    pub(crate) fn load(&self) -> (usize, usize) {
        let all = self.shared.state().all;
        (all.runs, all.bytes)
    }

    pub(crate) fn most_runs(&self) -> usize {
        self.shared.most_runs
    }

    pub(crate) fn most_bytes(&self) -> usize {
        self.shared.most_bytes
    }

    /// A place, if one is free, what is held leaves room, and the tenant has not had its share.
    pub(crate) fn take(&self, tenant: &Tenant) -> Option<Place> {
        let mut state = self.shared.state();
        self.shared.may_take(&state, tenant).then(|| {
            state.all.runs += 1;
            state.tenants.entry(tenant.clone()).or_default().runs += 1;
            self.shared.place(tenant.clone(), false)
        })
    }

    /// A place for a run that another one waits for: were it to wait for a place, both would wait for ever.
    pub(crate) fn take_anyway(&self, tenant: &Tenant) -> Place {
        self.take(tenant).unwrap_or_else(|| {
            let mut state = self.shared.state();
            state.all.guests += 1;
            state.tenants.entry(tenant.clone()).or_default().guests += 1;
            self.shared.place(tenant.clone(), true)
        })
    }

    /// Up to so many places, to be given to tenants that have not had their share. Where there is none, the next
    /// one that becomes free is announced.
    pub(crate) fn reserve(&self, most: usize) -> Option<Reserved> {
        self.shared.reserve(most).or_else(|| {
            self.shared.is_wanted.store(true, Ordering::SeqCst);
            // One may have become free before that was known.
            self.shared.reserve(most)
        })
    }

    /// Notes that runs wait which got none of these places; answers whether anything became free since they were reserved.
    pub(crate) fn want_more_than(&self, reserved: &Reserved) -> bool {
        self.shared.is_wanted.store(true, Ordering::SeqCst);
        self.shared.state().freed != reserved.freed
    }

    /// Notes that a run of this tenant waits for a place; answers whether it could have one now.
    pub(crate) fn want(&self, tenant: &Tenant) -> bool {
        self.shared.is_wanted.store(true, Ordering::SeqCst);
        self.shared.may_take(&self.shared.state(), tenant)
    }

    /// Returns when there is room to read one more run from the store. The guard is to be kept until it was weighed.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        let opening = Arc::clone(&self.opening).acquire_owned().await.ok();
        loop {
            let freed = self.shared.freed.notified();
            tokio::pin!(freed);
            // Whatever becomes free from here on is not missed.
            freed.as_mut().enable();
            if self.shared.state().all.bytes < self.shared.most_bytes {
                return opening;
            }
            freed.await;
        }
    }

    /// Whether a run wanted a place since this was asked last.
    pub(crate) fn was_wanted(&self) -> bool {
        self.shared.is_wanted.swap(false, Ordering::SeqCst)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(self: &Arc<Self>, tenant: Tenant, is_guest: bool) -> Place {
        Place { shared: Arc::clone(self), tenant, is_guest, weighs: 0 }
    }

    fn free(&self, state: &State) -> usize {
        self.most_runs.saturating_sub(state.all.runs)
    }

    fn may_take(&self, state: &State, tenant: &Tenant) -> bool {
        let held = state.tenants.get(tenant).copied().unwrap_or_default();
        let free = self.free(state);
        free > 0
            && held.runs < share_of(free - 1)
            && state.all.bytes < self.most_bytes
            && !self.is_heavy(state, held)
    }

    /// Whether a tenant's runs hold more than its share of what all may hold.
    fn is_heavy(&self, state: &State, held: Holding) -> bool {
        let free = self.most_bytes.saturating_sub(state.all.bytes);
        held.bytes > free.saturating_mul(TIMES_WHAT_IS_FREE)
    }

    fn reserve(self: &Arc<Self>, most: usize) -> Option<Reserved> {
        let mut state = self.state();
        let free = self.free(&state);
        if free == 0 || state.all.bytes >= self.most_bytes {
            return None;
        }
        // Half of them, so that what is left says what the share is; the rest is for the next look.
        let places = free.div_ceil(2).min(most);
        let counted = |(tenant, held): (&Tenant, &Holding)| {
            let runs = if self.is_heavy(&state, *held) { self.most_runs } else { held.runs };
            (tenant.clone(), runs)
        };
        let held = state.tenants.iter().map(counted).collect();
        let freed = state.freed;
        state.all.runs += places;
        let share = share_of(free - places).min(self.most_runs);
        Some(Reserved { shared: Arc::clone(self), places, share, held, freed })
    }

    fn give_back(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.freed += 1;
        drop(state);
        self.freed.notify_waiters();
    }
}

/// What one tenant may hold where so many places stay free. One that holds none can have the last.
fn share_of(free: usize) -> usize {
    free.saturating_mul(TIMES_WHAT_IS_FREE).max(1)
}

impl Reserved {
    /// One of the places, for a run of this tenant.
    pub(crate) fn place(&mut self, tenant: Tenant) -> Place {
        let mut state = self.shared.state();
        match self.places.checked_sub(1) {
            Some(left) => self.places = left,
            // More were claimed than were asked for; they are driven, since they are ours.
            None => state.all.runs += 1,
        }
        state.tenants.entry(tenant.clone()).or_default().runs += 1;
        drop(state);
        self.shared.place(tenant, false)
    }
}

impl Drop for Reserved {
    /// What was not needed was free all the while, so no one is notified.
    fn drop(&mut self) {
        self.shared.state().all.runs -= self.places;
    }
}

impl Place {
    /// Says what the run weighs now.
    pub(crate) fn weigh(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.weighs, bytes);
        if before == bytes {
            return;
        }
        let change = |state: &mut State| {
            let held = state.tenants.entry(self.tenant.clone()).or_default();
            held.bytes = held.bytes.saturating_sub(before).saturating_add(bytes);
            state.all.bytes = state.all.bytes.saturating_sub(before).saturating_add(bytes);
        };
        if bytes < before {
            self.shared.give_back(change);
        } else {
            change(&mut self.shared.state());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.weigh(0);
        self.shared.give_back(|state| {
            let held = state.tenants.entry(self.tenant.clone()).or_default();
            for holding in [&mut *held, &mut state.all] {
                let count = if self.is_guest { &mut holding.guests } else { &mut holding.runs };
                *count = count.saturating_sub(1);
            }
            if state.tenants.get(&self.tenant).is_some_and(|held| held.runs + held.guests == 0) {
                state.tenants.remove(&self.tenant);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(places: &Places, tenant: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.take(&tenant.into())).collect()
    }

    #[test]
    fn each_tenant_gets_places_and_there_is_one_for_the_next() {
        let places = Places::new(64, 100);
        let one = taken(&places, "one");
        assert_eq!(one.len(), 48);
        let two = taken(&places, "two");
        let three = taken(&places, "three");
        assert_eq!((two.len(), three.len()), (12, 3));
        let four = taken(&places, "four");
        assert_eq!(four.len(), 1, "the last is for one that holds none");
        assert!(taken(&places, "five").is_empty());
        assert!(!places.want(&"five".into()) && places.was_wanted());
        drop(two);
        assert!(places.want(&"five".into()) && !places.want(&"one".into()));
        drop((one, three, four));
        assert!(places.shared.state().tenants.is_empty());
        assert_eq!(places.shared.state().all.runs, 0);
    }

    #[test]
    fn what_is_held_leaves_room_for_others() {
        let places = Places::new(9, 100);
        let (one, two) = ("one".into(), "two".into());
        let mut heavy = places.take(&one).unwrap();
        heavy.weigh(76);
        assert!(places.take(&one).is_none(), "more than three times what is left");
        assert_eq!(places.reserve(9).unwrap().held.get(&one), Some(&9));
        let mut other = places.take(&two).unwrap();
        other.weigh(24);
        assert!(places.take(&two).is_none() && places.reserve(9).is_none());
        let child = places.take_anyway(&two);
        heavy.weigh(10);
        assert!(places.take(&one).is_some());
        drop((heavy, other, child));
        assert_eq!(places.shared.state().all.bytes, 0);
    }

    #[test]
    fn what_was_reserved_and_not_needed_is_free_again() {
        let places = Places::new(4, 100);
        let mut reserved = places.reserve(256).unwrap();
        assert_eq!((reserved.places, reserved.share), (2, 4));
        let one = reserved.place("one".into());
        assert!(!places.want_more_than(&reserved));
        drop(reserved);
        assert_eq!(places.shared.state().all.runs, 1);
        let reserved = places.reserve(256).unwrap();
        drop(one);
        assert!(places.want_more_than(&reserved), "one left meanwhile");
    }

    #[tokio::test]
    async fn whoever_waits_for_room_is_let_in_when_there_is_some() {
        let places = Places::new(9, 10);
        let mut full = places.take(&"one".into()).unwrap();
        full.weigh(10);
        let room = places.room();
        tokio::pin!(room);
        assert!(futures_util::poll!(&mut room).is_pending());
        drop(full);
        assert!(futures_util::poll!(&mut room).is_ready());
    }
}
