//! How many runs a tenant may have stored.
//!
//! They are counted again and again, not with every run: between two counts the runs that begin here are added. So what a
//! check costs does not depend on how many there are, and hosts of one database may together exceed a quota by what they
//! begin between two counts.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use callboard_protocol::{Tenant, Timestamp};

use crate::engine::Engine;

/// The most that tenants may store: each, and some instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredLimits {
    pub every: Option<u64>,
    pub tenants: BTreeMap<Tenant, u64>,
}

/// A tenant has as many runs stored as it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{stored} runs are stored, and {limit} may be ({name})")]
pub struct OverQuota {
    pub stored: u64,
    pub limit: u64,
    /// The key of the file that sets it.
    pub name: String,
}

/// What stands against a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRuns {
    pub stored: u64,
    pub limit: Option<(u64, String)>,
    /// When they were counted last; never before the first time.
    pub counted_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Counted {
    limits: StoredLimits,
    runs: BTreeMap<Tenant, u64>,
    at: Option<Timestamp>,
}

/// Quotas, and what was counted.
#[derive(Debug, Default)]
pub struct Quotas(RwLock<Counted>);

impl StoredLimits {
    pub fn is_empty(&self) -> bool {
        self.every.is_none() && self.tenants.is_empty()
    }

    fn of(&self, tenant: &Tenant) -> Option<(u64, String)> {
        let own = self.tenants.get(tenant);
        let own = own.map(|limit| (*limit, format!("tenants.{tenant}.stored_runs")));
        own.or_else(|| Some((self.every?, "limits.stored_runs".to_owned())))
    }
}

impl Quotas {
    /// From here on runs begin within these.
    pub fn set(&self, limits: StoredLimits) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).limits = limits;
    }

    /// Whether anything needs counting.
    pub fn is_empty(&self) -> bool {
        self.read().limits.is_empty()
    }

    /// Notes how many runs are stored of each tenant.
    pub fn counted(&self, runs: impl IntoIterator<Item = (Tenant, u64)>, at: Timestamp) {
        let mut counted = self.0.write().unwrap_or_else(PoisonError::into_inner);
        (counted.runs, counted.at) = (runs.into_iter().collect(), Some(at));
    }

    /// Where a tenant stands.
    pub fn of(&self, tenant: &Tenant) -> StoredRuns {
        let counted = self.read();
        StoredRuns {
            stored: counted.runs.get(tenant).copied().unwrap_or_default(),
            limit: counted.limits.of(tenant),
            counted_at: counted.at,
        }
    }

    /// Whether another run of the tenant may be stored.
    pub(crate) fn admit(&self, tenant: &Tenant) -> Result<(), OverQuota> {
        let StoredRuns { stored, limit, .. } = self.of(tenant);
        match limit {
            Some((limit, name)) if stored >= limit => Err(OverQuota { stored, limit, name }),
            Some(_) | None => Ok(()),
        }
    }

    /// Notes a run that began here.
    pub(crate) fn began(&self, tenant: &Tenant) {
        if self.is_empty() {
            return;
        }
        let mut counted = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *counted.runs.entry(tenant.clone()).or_default() += 1;
    }

    fn read(&self) -> RwLockReadGuard<'_, Counted> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    pub fn quotas(&self) -> &Quotas {
        &self.inner.quotas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_begin_until_the_quota_is_reached_and_again_when_some_are_gone() {
        let (quotas, acme, rich) = (Quotas::default(), "acme".into(), "rich".into());
        quotas.began(&acme);
        quotas.admit(&acme).unwrap();
        let tenants = BTreeMap::from([(Tenant::clone(&rich), 100)]);
        quotas.set(StoredLimits { every: Some(2), tenants });
        let at = Timestamp::from_millis(7);
        quotas.counted([(Tenant::clone(&acme), 1), (Tenant::clone(&rich), 50)], at);
        quotas.admit(&acme).unwrap();
        quotas.began(&acme);
        let refused = quotas.admit(&acme).unwrap_err();
        assert_eq!(
            (refused.stored, refused.limit, refused.name.as_str()),
            (2, 2, "limits.stored_runs")
        );
        quotas.admit(&rich).unwrap();
        let rich = quotas.of(&rich);
        assert_eq!(rich.limit, Some((100, "tenants.rich.stored_runs".to_owned())));
        assert_eq!((rich.stored, rich.counted_at), (50, Some(at)));
        quotas.counted([], at);
        quotas.admit(&acme).unwrap();
    }
}
