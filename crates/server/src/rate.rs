//! How often one key may ask.

use std::num::NonZeroU32;

use callboard_protocol::KeyId;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};

use crate::problem::{Code, Problem};

/// A bucket per key, refilled evenly over each second.
#[derive(Debug)]
pub(crate) struct RateLimit(Option<Buckets>);

struct Buckets {
    limit: NonZeroU32,
    by_key: DefaultKeyedRateLimiter<KeyId>,
    clock: DefaultClock,
}

impl std::fmt::Debug for Buckets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl RateLimit {
    /// Zero is no limit.
    pub(crate) fn new(requests_per_second: u32) -> Self {
        Self(NonZeroU32::new(requests_per_second).map(|limit| Buckets {
            limit,
            by_key: DefaultKeyedRateLimiter::keyed(Quota::per_second(limit)),
            clock: DefaultClock::default(),
        }))
    }

    pub(crate) fn check(&self, key: &KeyId) -> Result<(), Problem> {
        let Some(buckets) = &self.0 else { return Ok(()) };
        buckets.by_key.check_key(key).map_err(|refused| {
            let wait = refused.wait_time_from(buckets.clock.now());
            too_many(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1), buckets.limit)
        })
    }
}

/// The header counts whole seconds, rounded up, so that coming back then is never too early.
fn too_many(wait_ms: u64, limit: NonZeroU32) -> Problem {
    let mut problem = Problem::new(Code::RateLimited, "this key asks too often")
        .with("retryAfterMs", wait_ms)
        .with("scope", "key")
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
            let problem = too_many(wait_ms, NonZeroU32::MIN);
            let seconds = problem.retry_after.unwrap_or_default();
            assert!(
                seconds * 1000 >= wait_ms && seconds * 1000 < wait_ms + 1000,
                "{wait_ms} ms, {seconds} s"
            );
        }
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        let rate = RateLimit::new(1);
        assert!(rate.check(&"a".into()).is_ok());
        assert_eq!(rate.check(&"a".into()).map_err(|problem| problem.code), Err(Code::RateLimited));
        assert!(rate.check(&"b".into()).is_ok());
        assert!(RateLimit::new(0).check(&"a".into()).is_ok());
    }
}
