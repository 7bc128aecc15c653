//! How long a webhook that keeps failing is left alone, and when for good.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use callboard_protocol::Timestamp;

use super::fate::RetryPace;
use super::webhook::Care;

/// Failures in a row that open the circuit.
const TRIPS: u32 = 4;
/// What the protocol lets a best-effort receiver rest, and the longest rest of any at every pace.
const LONG_REST: Duration = Duration::from_secs(3_600);
/// The first rest of a durable webhook. Nothing is lost while it rests, so it may be asked again soon.
const FIRST_REST: Duration = Duration::from_secs(60);
/// So many failures within the window end a webhook.
const MOST_FAILURES: usize = 100;
const WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// What is known of a webhook's receiver.
///
/// Stored as JSON. An old reader ignores fields that it does not know; a new reader defaults those that an old
/// record lacks; an old writer drops what it does not know, so a field that must not be lost needs a record of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Circuit {
    /// Failures since the last success.
    #[serde(default)]
    consecutive: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rest_until: Option<Timestamp>,
    /// The failures of the window, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_at: Option<Timestamp>,
}

impl Circuit {
    /// Whether the receiver is left alone now. Once the rest is over the next delivery is a probe.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.rest_until.is_some_and(|until| until > at)
    }

    /// Whether it is left alone for good.
    pub fn has_failed(&self) -> bool {
        self.failed_at.is_some()
    }

    pub fn rest_until(&self) -> Option<Timestamp> {
        self.rest_until
    }

    #[must_use]
    pub(super) fn after_success(&self) -> Self {
        Self { consecutive: 0, rest_until: None, ..self.clone() }
    }

    #[must_use]
    pub(super) fn after_failure(
        &self,
        care: Care,
        at: Timestamp,
        (pace, most): (RetryPace, Duration),
    ) -> Self {
        let consecutive = self.consecutive.saturating_add(1);
        let mut failures = self.failures.clone();
        failures.retain(|failure| at.since(*failure) < WINDOW);
        failures.push(at);
        let has_failed = failures.len() >= MOST_FAILURES;
        Self {
            consecutive,
            rest_until: (consecutive >= TRIPS)
                .then(|| at.plus(pace.scaled(rest(care, consecutive)).min(LONG_REST).min(most))),
            failures,
            failed_at: self.failed_at.or(has_failed.then_some(at)),
        }
    }
}

fn rest(care: Care, consecutive: u32) -> Duration {
    match care {
        Care::BestEffort => LONG_REST,
        Care::Durable => {
            let doublings = consecutive.saturating_sub(TRIPS).min(16);
            FIRST_REST.saturating_mul(1 << doublings).min(LONG_REST)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const USUAL: (RetryPace, Duration) = (RetryPace::USUAL, Duration::MAX);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn after_failures(care: Care, times: impl IntoIterator<Item = i64>) -> Circuit {
        times
            .into_iter()
            .fold(Circuit::default(), |circuit, time| circuit.after_failure(care, at(time), USUAL))
    }

    #[test]
    fn the_fourth_failure_in_a_row_opens_for_an_hour() {
        assert!(!after_failures(Care::BestEffort, [0, 1, 2]).is_open(at(2)));
        let open = after_failures(Care::BestEffort, [0, 1, 2, 3]);
        assert!(open.is_open(at(3)) && open.is_open(at(HOUR + 2)) && !open.is_open(at(HOUR + 3)));
    }

    #[test]
    fn a_failed_probe_opens_again_and_a_good_one_closes() {
        let open = after_failures(Care::BestEffort, [0, 1, 2, 3]);
        let again = open.after_failure(Care::BestEffort, at(HOUR + 3), USUAL);
        assert_eq!(again.rest_until(), Some(at(2 * HOUR + 3)));
        let closed = again.after_success();
        assert!(!closed.after_failure(Care::BestEffort, at(3 * HOUR), USUAL).is_open(at(3 * HOUR)));
    }

    #[test]
    fn a_durable_webhook_rests_a_minute_first_and_never_more_than_an_hour() {
        let minutes = |count: i64| {
            let circuit = after_failures(Care::Durable, 0..count);
            circuit.rest_until().map(|until| until.since(at(count - 1)).as_secs() / 60)
        };
        assert_eq!(
            [3, 4, 5, 6, 9, 10, 40].map(minutes),
            [None, Some(1), Some(2), Some(4), Some(32), Some(60), Some(60)]
        );
    }

    #[test]
    fn a_hundred_failures_within_a_week_are_the_end() {
        assert!(!after_failures(Care::BestEffort, 0..99).has_failed());
        assert!(after_failures(Care::BestEffort, 0..100).has_failed());
        let slow = after_failures(Care::BestEffort, (0..300).map(|day| day * 2 * HOUR));
        assert!(!slow.has_failed(), "eighty-four a week are not too many");
    }
}
