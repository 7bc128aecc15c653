//! How often one caller may ask: a key, or the senders of one subscription.

use std::hash::Hash;
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

use crate::problem::{Code, Problem};

/// A bucket for each, refilled evenly.
#[derive(Debug)]
pub(crate) struct RateLimit<K: Hash + Eq + Clone>(Option<Buckets<K>>);

struct Buckets<K: Hash + Eq + Clone> {
    limit: NonZeroU32,
    what: Limited,
    buckets: DefaultKeyedRateLimiter<K>,
    clock: DefaultClock,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Requests of a key, by the second.
    Key,
    /// Posts to a subscription, by the minute.
    Subscription,
}

impl Limited {
    fn quota(self, limit: NonZeroU32) -> Quota {
        match self {
            Self::Key => Quota::per_second(limit),
            Self::Subscription => Quota::per_minute(limit),
        }
    }

    fn scope(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Subscription => "subscription",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Key => "this key asks too often",
            Self::Subscription => "too many posts to this subscription",
        }
    }
}

impl<K: Hash + Eq + Clone> std::fmt::Debug for Buckets<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone> RateLimit<K> {
    /// Zero is no limit.
    pub(crate) fn new(what: Limited, limit: u32) -> Self {
        Self(NonZeroU32::new(limit).map(|limit| Buckets {
            limit,
            what,
            buckets: DefaultKeyedRateLimiter::keyed(what.quota(limit)),
            clock: DefaultClock::default(),
        }))
    }

    pub(crate) fn check(&self, who: &K) -> Result<(), Problem> {
        let Some(Buckets { limit, what, buckets, clock }) = &self.0 else { return Ok(()) };
        buckets.check_key(who).map_err(|refused| {
            let wait = refused.wait_time_from(clock.now());
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            too_many(*what, wait_ms, *limit)
        })
    }
}

/// The header counts whole seconds, rounded up, so that coming back then is never too early.
fn too_many(what: Limited, wait_ms: u64, limit: NonZeroU32) -> Problem {
    let mut problem = Problem::new(Code::RateLimited, what.message())
        .with("retryAfterMs", wait_ms)
        .with("scope", what.scope())
        .with("limit", limit.get());
    problem.retry_after = Some(wait_ms.div_ceil(1000));
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_milliseconds_agree_within_a_second() {
        for wait_ms in [1, 999, 1000, 1001, 60_500] {
            let problem = too_many(Limited::Key, wait_ms, NonZeroU32::MIN);
            let seconds = problem.retry_after.unwrap_or_default();
            assert!(
                seconds * 1000 >= wait_ms && seconds * 1000 < wait_ms + 1000,
                "{wait_ms} ms, {seconds} s"
            );
        }
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        let rate = RateLimit::new(Limited::Key, 1);
        assert!(rate.check(&"a").is_ok());
        assert_eq!(rate.check(&"a").map_err(|problem| problem.code), Err(Code::RateLimited));
        assert!(rate.check(&"b").is_ok());
        assert!(RateLimit::new(Limited::Key, 0).check(&"a").is_ok());
    }
}
