//! What the outcome of an attempt means for the delivery, its webhook and whatever else waits for it.

use std::time::Duration;

use callboard_core::backoff;
use callboard_protocol::{Dialect, Timestamp};

use super::delivery::{Delivery, Fate, Others, Settlement};
use super::parcel::WITHIN;
use super::webhook::Care;

/// With the usual waits between them the last attempt is eight and a half minutes after the first; the rests of a receiver
/// that keeps failing make it an hour.
const MOST_ATTEMPTS: u32 = 10;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait, as a multiple of the first.
const LONGEST_WAIT: u32 = 360;
/// The reason of a delivery that no attempt can help.
const UNPROJECTABLE: &str = "payload_unprojectable";

/// How long a webhook that fails is left alone: everything grows with the first wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPace {
    first: Duration,
}

impl Default for RetryPace {
    fn default() -> Self {
        Self::USUAL
    }
}

impl RetryPace {
    pub const MOST_ATTEMPTS: u32 = MOST_ATTEMPTS;
    pub const USUAL: Self = Self { first: FIRST_WAIT };

    pub fn of_first_wait(first: Duration) -> Self {
        Self { first }
    }

    /// A duration of the usual pace in this one.
    pub(super) fn scaled(self, usual: Duration) -> Duration {
        let ratio = self.first.as_secs_f64() / FIRST_WAIT.as_secs_f64();
        usual.mul_f64(ratio)
    }

    /// The latest that a durable delivery is given up after its first attempt, each of them answered at the last moment.
    pub fn longest(self) -> Duration {
        let waits: Duration = (1..MOST_ATTEMPTS).map(|made| self.wait_after(made)).sum();
        (waits + WITHIN * MOST_ATTEMPTS).max(self.first * 540)
    }

    fn wait_after(self, attempts: u32) -> Duration {
        backoff(self.first, self.first * LONGEST_WAIT, attempts.saturating_sub(1))
    }
}

/// How long a dead letter is kept.
pub(super) const DEAD_LETTERS_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Decides what to write after an attempt; a failure says why.
pub(super) fn settle(
    delivery: &Delivery,
    outcome: Result<(), String>,
    at: Timestamp,
    pace: RetryPace,
) -> Settlement {
    let webhook = &delivery.webhook;
    let (fate, circuit, others) = match outcome {
        Ok(()) => (Fate::Gone, webhook.circuit.after_success(), Others::Wait),
        // Nobody was asked, so nobody has failed.
        Err(reason) if reason == UNPROJECTABLE => {
            (Fate::Dead { reason }, webhook.circuit.clone(), Others::Wait)
        }
        Err(reason) => {
            let most = match webhook.dialect {
                Dialect::V1 => Duration::MAX,
                // What is said of the schedule of one delivery holds however many others fail.
                Dialect::V2 => pace.wait_after(delivery.attempts.saturating_add(1)),
            };
            let circuit = webhook.circuit.after_failure(webhook.care, at, (pace, most));
            let others = match webhook.care {
                Care::Durable if circuit.has_failed() => Others::Bury,
                Care::BestEffort if circuit.is_open(at) || circuit.has_failed() => Others::Skip,
                Care::Durable | Care::BestEffort => Others::Wait,
            };
            (fate_of_failed(delivery, reason, others, (at, pace)), circuit, others)
        }
    };
    Settlement { at, fate, circuit, others }
}

/// Dead letters from before this are no longer shown.
pub(super) fn oldest_kept(at: Timestamp) -> Timestamp {
    let kept = i64::try_from(DEAD_LETTERS_KEPT.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(kept))
}

fn fate_of_failed(
    delivery: &Delivery,
    reason: String,
    others: Others,
    (at, pace): (Timestamp, RetryPace),
) -> Fate {
    let attempts = delivery.attempts.saturating_add(1);
    match delivery.webhook.care {
        Care::BestEffort => Fate::Gone,
        Care::Durable if attempts >= MOST_ATTEMPTS || others == Others::Bury => {
            Fate::Dead { reason }
        }
        Care::Durable => Fate::Retry { due_at: at.plus(pace.wait_after(attempts)) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_ten_attempts() {
        let pace = RetryPace::default();
        let waits = (1..MOST_ATTEMPTS).map(|made| pace.wait_after(made).as_secs());
        let waits: Vec<u64> = waits.collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(pace.wait_after(u32::MAX), Duration::from_secs(360));
        assert_eq!(pace.longest(), Duration::from_secs(511 + 50));
    }

    #[test]
    fn everything_grows_and_shrinks_with_the_first_wait() {
        let pace = RetryPace::of_first_wait(Duration::from_millis(100));
        assert_eq!(pace.wait_after(3), Duration::from_millis(400));
        assert_eq!(pace.scaled(Duration::from_secs(60)), Duration::from_secs(6));
        assert_eq!(pace.longest(), Duration::from_millis(51_100 + 50_000));
    }
}
