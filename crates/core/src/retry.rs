//! How long to wait before a failed attempt is tried again.

/// The first wait; each further one doubles it.
const FIRST_MS: u64 = 1_000;
/// No wait is longer.
const LONGEST_MS: u64 = 60_000;

/// The wait after the given number of earlier failures.
pub(crate) fn backoff_ms(failures: u32) -> u64 {
    1_u64
        .checked_shl(failures)
        .map_or(LONGEST_MS, |factor| FIRST_MS.saturating_mul(factor).min(LONGEST_MS))
}

#[cfg(test)]
mod tests {
    use super::backoff_ms;

    #[test]
    fn waits_double_up_to_a_minute() {
        let waits: Vec<u64> =
            [0, 1, 2, 5, 6, 63, 64, u32::MAX].into_iter().map(backoff_ms).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 32_000, 60_000, 60_000, 60_000, 60_000]);
    }
}
