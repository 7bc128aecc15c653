//! What the outcome of an attempt means for the delivery, its webhook and whatever else waits for it.

use std::time::Duration;

use callboard_core::backoff;
use callboard_protocol::Timestamp;

use super::delivery::{Delivery, Fate, Others, Settlement};
use super::webhook::Care;

/// With the waits between them the last attempt is an hour and a half after the first.
const MOST_ATTEMPTS: u32 = 10;
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// How long a dead letter is kept.
pub(super) const DEAD_LETTERS_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Decides what to write after an attempt; a failure says why.
pub(super) fn settle(
    delivery: &Delivery,
    outcome: Result<(), String>,
    at: Timestamp,
) -> Settlement {
    let webhook = &delivery.webhook;
    let (fate, circuit, others) = match outcome {
        Ok(()) => (Fate::Gone, webhook.circuit.after_success(), Others::Wait),
        Err(reason) => {
            let circuit = webhook.circuit.after_failure(webhook.care, at);
            let others = match webhook.care {
                Care::Durable if circuit.has_failed() => Others::Bury,
                Care::BestEffort if circuit.is_open(at) || circuit.has_failed() => Others::Skip,
                Care::Durable | Care::BestEffort => Others::Wait,
            };
            (fate_of_failed(delivery, reason, others, at), circuit, others)
        }
    };
    Settlement { at, fate, circuit, others }
}

/// Dead letters from before this are no longer shown.
pub(super) fn oldest_kept(at: Timestamp) -> Timestamp {
    let kept = i64::try_from(DEAD_LETTERS_KEPT.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(kept))
}

fn fate_of_failed(delivery: &Delivery, reason: String, others: Others, at: Timestamp) -> Fate {
    let attempts = delivery.attempts.saturating_add(1);
    match delivery.webhook.care {
        Care::BestEffort => Fate::Gone,
        Care::Durable if attempts >= MOST_ATTEMPTS || others == Others::Bury => {
            Fate::Dead { reason }
        }
        Care::Durable => Fate::Retry { due_at: at.plus(wait_after(attempts)) },
    }
}

fn wait_after(attempts: u32) -> Duration {
    backoff(FIRST_WAIT, LONGEST_WAIT, attempts.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end_after_an_hour_and_a_half() {
        let waits: Vec<u64> = (1..MOST_ATTEMPTS).map(|made| wait_after(made).as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560]);
        assert_eq!(waits.iter().sum::<u64>() / 60, 85);
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }
}
