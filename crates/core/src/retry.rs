//! How long to wait before something is tried again that failed.

use std::time::Duration;

/// Doubles the first wait for each earlier failure, up to the longest.
pub fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let wait = |failures| backoff(Duration::from_secs(1), Duration::from_secs(60), failures);
        let waits = [0, 1, 2, 5, 6, 31, 32, u32::MAX].map(|failures| wait(failures).as_secs());
        assert_eq!(waits, [1, 2, 4, 32, 60, 60, 60, 60]);
        let endless = backoff(Duration::MAX, Duration::MAX, 31);
        assert_eq!(endless, Duration::MAX);
    }
}
