//! What callers share: places, and bytes in memory. Each may take its part, and always leaves some for the next.
//!
//! Nobody has a fixed part. A tenant may hold three quarters of what it holds and what is free together, and one of its
//! keys three quarters of that. So a single caller can use most of a pool, and however many come and take all that they
//! can, there is room for one more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::metrics::Gauge;
use callboard_protocol::Tenant;

/// Something that there is only so much of.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity: u64,
    /// What every caller may hold while there is any: below it, dividing would only refuse.
    floor: u64,
    gauge: Gauge,
    shares: Mutex<Shares>,
}

#[derive(Debug, Default)]
struct Shares {
    taken: u64,
    tenants: BTreeMap<Tenant, TenantShare>,
}

#[derive(Debug, Default)]
struct TenantShare {
    taken: u64,
    holders: BTreeMap<String, u64>,
}

/// Whose share it is: a key or a door of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) tenant: Tenant,
    pub(crate) name: String,
}

/// Whose part is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Host,
    Tenant,
    Holder,
}

impl Pool {
    pub(crate) fn new(capacity: u64, floor: u64, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { capacity: capacity.max(1), floor, gauge, shares: Mutex::default() })
    }

    /// A part of nothing, to be grown.
    pub(crate) fn part(self: &Arc<Self>, holder: Holder) -> Part {
        Part { pool: Arc::clone(self), holder, amount: 0 }
    }

    /// The most that one part should ask for: who holds nothing gets it from an idle pool.
    pub(crate) fn most_at_once(&self) -> u64 {
        (self.capacity / 4).max(1)
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        // A panic elsewhere cannot leave the sums half-changed.
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, holder: &Holder, amount: u64) -> Result<(), Full> {
        let mut shares = self.shares();
        let free = self.capacity.saturating_sub(shares.taken);
        if amount > free {
            return Err(Full::Host);
        }
        let tenant = shares.tenants.get(&holder.tenant);
        let theirs = tenant.map_or(0, |tenant| tenant.taken);
        let tenant_share = self.three_quarters(theirs + free);
        if theirs + amount > tenant_share {
            return Err(Full::Tenant);
        }
        let own = tenant.and_then(|tenant| tenant.holders.get(&holder.name)).copied().unwrap_or(0);
        if own + amount > self.three_quarters(own + (tenant_share - theirs)) {
            return Err(Full::Holder);
        }
        shares.taken += amount;
        let tenant = shares.tenants.entry(holder.tenant.clone()).or_default();
        tenant.taken += amount;
        *tenant.holders.entry(holder.name.clone()).or_default() += amount;
        self.gauge.increment(amount as f64);
        Ok(())
    }

    fn three_quarters(&self, of: u64) -> u64 {
        (of - of / 4).max(self.floor)
    }

    fn give_back(&self, holder: &Holder, amount: u64) {
        let mut shares = self.shares();
        shares.taken = shares.taken.saturating_sub(amount);
        if let Some(tenant) = shares.tenants.get_mut(&holder.tenant) {
            tenant.taken = tenant.taken.saturating_sub(amount);
            if let Some(own) = tenant.holders.get_mut(&holder.name) {
                *own = own.saturating_sub(amount);
                if *own == 0 {
                    tenant.holders.remove(&holder.name);
                }
            }
            if tenant.holders.is_empty() {
                shares.tenants.remove(&holder.tenant);
            }
        }
        self.gauge.decrement(amount as f64);
    }
}

/// What one request has taken. It goes back with the value.
#[derive(Debug)]
pub(crate) struct Part {
    pool: Arc<Pool>,
    holder: Holder,
    amount: u64,
}

impl Part {
    pub(crate) fn grow(&mut self, amount: u64) -> Result<(), Full> {
        self.pool.take(&self.holder, amount)?;
        self.amount += amount;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.pool.give_back(&self.holder, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(tenant: &str, name: &str) -> Holder {
        Holder { tenant: tenant.into(), name: name.to_owned() }
    }

    /// Takes one by one until it is refused.
    fn fill(pool: &Arc<Pool>, who: &Holder) -> (Vec<Part>, Full) {
        let mut parts = Vec::new();
        loop {
            let mut part = pool.part(who.clone());
            match part.grow(1) {
                Ok(()) => parts.push(part),
                Err(full) => return (parts, full),
            }
        }
    }

    #[test]
    fn one_key_leaves_room_for_others_of_its_tenant_and_one_tenant_for_others() {
        let pool = Pool::new(4096, 0, Gauge::noop());
        let (first, full) = fill(&pool, &holder("acme", "a"));
        assert_eq!((first.len(), full), (2304, Full::Holder));
        let (second, full) = fill(&pool, &holder("acme", "b"));
        assert!(second.len() > 400 && full == Full::Holder, "{} {full:?}", second.len());
        let (rival, _) = fill(&pool, &holder("rival", "c"));
        assert!(rival.len() > 500, "{}", rival.len());
        drop((first, second, rival));
        assert!(pool.shares().tenants.is_empty() && pool.shares().taken == 0);
    }

    #[test]
    fn however_many_take_all_they_can_the_next_one_finds_room() {
        let pool = Pool::new(4096, 0, Gauge::noop());
        let held: Vec<_> =
            (0..3).map(|tenant| fill(&pool, &holder(&format!("t{tenant}"), "k")).0).collect();
        assert!(held.iter().all(|parts| parts.len() > 100));
        assert!(!fill(&pool, &holder("newcomer", "k")).0.is_empty());
    }

    #[test]
    fn a_small_pool_is_not_divided_and_still_ends() {
        let pool = Pool::new(2, 16, Gauge::noop());
        let (parts, full) = fill(&pool, &holder("acme", "a"));
        assert_eq!((parts.len(), full), (2, Full::Host));
    }

    #[test]
    fn what_is_refused_is_not_taken() {
        let pool = Pool::new(100, 0, Gauge::noop());
        let mut part = pool.part(holder("acme", "a"));
        assert_eq!(part.grow(101), Err(Full::Host));
        assert_eq!(part.grow(80), Err(Full::Tenant));
        assert_eq!(part.grow(pool.most_at_once()), Ok(()));
        drop(part);
        assert_eq!(pool.shares().taken, 0);
    }
}
